// Runs a program in Node.js: for each line on stdin, a number of steps, it prints the seconds of processor time that
// they took; for "digest" and a number of steps, the hash of the states after each of them.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [engine, program, replicas, seed] = process.argv.slice(2);
const { Game, unpacked, hexadecimal } = new Function(`${readFileSync(engine, "utf8")}\nreturn { Game, unpacked, hexadecimal };`)();
const data = JSON.parse(readFileSync(program, "utf8"));
const game = new Game(await unpacked(data), data.description, Number(replicas), seed);
for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith("digest ")) {
    let found = game.digest();
    for (let step = 0; step < Number(line.slice(7)); step++) {
      game.advance();
      found = game.digest(found);
    }
    console.log(hexadecimal(found));
    continue;
  }
  const began = process.cpuUsage();
  for (let step = 0; step < Number(line); step++) game.advance();
  const { user, system } = process.cpuUsage(began);
  console.log((user + system) / 1e6);
}
