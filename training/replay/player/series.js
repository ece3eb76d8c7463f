// Series of numbers as series.py writes them: a number, or deflated differences of successive steps.

const unpacked = new WeakMap();

/** Return a function (step, column) that gives the numbers of a series. */
async function unpack(series) {
  if (typeof series === "number") return () => series;
  if (!unpacked.has(series)) unpacked.set(series, read(series));
  return unpacked.get(series);
}

async function read({ size: [steps, columns], low, scale, order, planes, data, missing }) {
  const deflated = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = steps * columns, numbers = new Float64Array(count);
  for (let column = 0, at = 0; column < columns; column++) {
    const sums = [0, 0];
    for (let step = 0; step < steps; step++, at++) {
      let code = 0;
      for (let plane = planes - 1; plane >= 0; plane--) code = code * 256 + bytes[plane * count + at];
      let number = code % 2 ? -(code + 1) / 2 : code / 2;
      for (let level = 0; level < order; level++) number = sums[level] += number;
      numbers[at] = number === missing ? NaN : low + scale * number;
    }
  }
  return (step, column = 0) => numbers[column * steps + step];
}
