// What the made-up kernel tells, as JSON: worlds, differences, answers. The Python test holds it to report/page.py.

import { FakeModel, makeWorld } from "./world.js";

const worlds = [makeWorld(), makeWorld({ listed: 400, others: 900, seed: 3 })];
const told = [...worlds].map((world) => structuredClone(world));
for (const world of worlds) {
  const model = new FakeModel(world);
  model.on("msg:custom", (message) => told.push(structuredClone(message)));
  let seed = 0;
  for (let i = 0; i < 40; i += 1) model.live(0.25, () => (seed = (seed * 16807 + 11) % 2147483647) / 2147483647);
  const [id] = Object.keys(world.objects);
  for (const what of ["pin", "unpin", "why", "cost", "spill", "stop", "free"]) model.send({ do: what, id, number: 1 });
  for (const what of ["look", "checkout"]) model.send({ do: what, id: "2", present: "3", number: 1 });
}
console.log(JSON.stringify(told));
