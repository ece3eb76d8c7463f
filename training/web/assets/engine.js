// Host of a program (training/web/program.py): it lays out arrays in memory, launches kernels, and hashes states.
// It needs no page: Node.js runs it, too.

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array,
};
const PAGE = 65536, ALIGNMENT = 64;

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;.=>?@^_`{|}~";

/** Return the module and the data of a program, which program.py packed. */
async function unpacked({ packed, packedBytes, moduleBytes }) {
  const digits = new Uint8Array(128), deflated = new DataView(new ArrayBuffer(packedBytes + 4));
  [...DIGITS].forEach((digit, value) => { digits[digit.charCodeAt(0)] = value; });
  for (let at = 0; at * 5 < packed.length; at++) {
    let word = 0;
    for (let i = 5 * at; i < 5 * at + 5; i++) word = 85 * word + (i < packed.length ? digits[packed.charCodeAt(i)] : 84);
    deflated.setUint32(4 * at, word);
  }
  const stream = new Blob([deflated.buffer.slice(0, packedBytes)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const words = (bytes.length - moduleBytes) / 4;
  const data = Uint8Array.from({ length: 4 * words }, (_, i) => bytes[moduleBytes + (i & 3) * words + (i >> 2)]);
  return { module: await WebAssembly.compile(bytes.slice(0, moduleBytes)), data };
}

/** Replicas of a game. */
class Game {
  constructor({ module, data }, description, replicas, seed, numbers = {}) {
    this.description = description;
    this.replicas = replicas;
    this.seed = BigInt(seed);
    this.exports = new WebAssembly.Instance(module, {}).exports;
    let end = description.firstFree;
    this.places = description.arrays.map(({ dtype, shape }) => {
      const own = shape.map(length => length < 0 ? replicas : length);
      const length = own.reduce((product, next) => product * next, 1);
      const place = { address: end, length, shape: own, kind: ARRAYS[dtype] };
      end += Math.ceil(length * place.kind.BYTES_PER_ELEMENT / ALIGNMENT) * ALIGNMENT;
      return place;
    });
    this.numbers = new Map(description.arrays.map(({ name }, index) => [name, index]));
    this.tables = {};
    const words = {};
    for (const [kernel, rows] of Object.entries(description.kernels)) {
      words[kernel] = rows.flatMap(([index, offset, shape, strides]) =>
        [this.places[index].address + offset, ...shape.map(length => length < 0 ? replicas : length), ...strides]);
      this.tables[kernel] = end;
      end += 8 * words[kernel].length;
    }
    const missing = end - this.exports.memory.buffer.byteLength;
    if (missing > 0) this.exports.memory.grow(Math.ceil(missing / PAGE));
    this.buffer = this.exports.memory.buffer;
    for (const kernel in words) new BigInt64Array(this.buffer, this.tables[kernel], words[kernel].length).set(words[kernel].map(BigInt));
    this.steps = Object.keys(description.kernels).filter(name => name !== "reset" && name !== "draw");
    const first = this.places[0], last = this.places[description.hashed.length - 1];
    const bytes = Math.ceil(last.length * last.kind.BYTES_PER_ELEMENT / ALIGNMENT) * ALIGNMENT;
    this.words = new Uint32Array(this.buffer, first.address, (last.address + bytes - first.address) / 4);
    description.arrays.forEach((array, index) => this.fill(array, index, data));
    for (const [name, value] of Object.entries(numbers)) this.values(name)?.fill(value);
    this.launch("reset");
    this.step = 0;
  }

  fill({ init }, index, data) {
    const values = this.view(index), { address, shape } = this.places[index];
    if (init === null) return;
    if (init === "replicas") values.fill(values instanceof BigInt64Array ? BigInt(this.replicas) : this.replicas);
    else if ("value" in init) values.fill(values instanceof BigInt64Array ? BigInt(init.value) : init.value);
    else if ("stream" in init) {
      const streams = shape.length === 3 ? shape[1] : 1;
      for (let replica = 0, at = 0; replica < this.replicas; replica++)
        for (let stream = 0; stream < streams; stream++, at += 4)
          values.set([Number(this.seed & 0xffffffffn), Number(this.seed >> 32n), replica, init.stream], at);
    } else {
      const { at, bytes } = init.rows || init, target = new Uint8Array(this.buffer, address, values.byteLength);
      for (let place = 0; place < target.length; place += bytes)
        target.set(data.subarray(at, at + Math.min(bytes, target.length - place)), place);
    }
  }

  view(index) {
    const { address, length, kind } = this.places[index];
    return new kind(this.buffer, address, length);
  }

  /** Return the values of an array, all replicas in a row, or undefined. */
  values(name) {
    return this.numbers.has(name) ? this.view(this.numbers.get(name)) : undefined;
  }

  shape(name) {
    return this.places[this.numbers.get(name)].shape;
  }

  launch(kernel) {
    if (this.exports[kernel](this.tables[kernel])) {
      const faults = (this.description.faults[kernel] || ["an exception"]).join(" or ");
      throw new Error(`${kernel}: ${faults}`);
    }
  }

  /** Take a step; `act` may change actions after the policies have chosen theirs. */
  advance(act = () => {}) {
    for (const kernel of this.steps) {
      if (kernel === "step") act();
      this.launch(kernel);
    }
    this.step++;
  }

  draw() {
    this.values("shapes").fill(0);
    this.values("things")?.fill(0);
    this.launch("draw");
  }

  /** Return the hash of the state, continuing an earlier one: two numbers, see game.py. */
  digest([low, high] = [0, 0]) {
    const { words } = this;
    low = Math.imul(low, 31);
    high = Math.imul(high, 31);
    for (let at = 0, weight = 0; at < words.length; at++) {
      const word = words[at];
      low = low + Math.imul(word, weight | 1) | 0;
      high = high + Math.imul(word ^ word >>> 15, weight | 1) | 0;
      weight = weight + 0x9e3779b2 | 0;
    }
    return [low >>> 0, high >>> 0];
  }
}

const hexadecimal = ([low, high]) => [high, low].map(half => half.toString(16).padStart(8, "0")).join("");
