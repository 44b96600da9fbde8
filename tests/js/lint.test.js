// The modules' own rules. They are linked into one text by taking the imports out, so top-level names are
// unique and imports plain; nothing is fetched; markup is made in two places.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const STATIC = fileURLToPath(new URL("../../workbench/widgets/static/", import.meta.url));
const ENTRIES = ["view.js", "lines.js"];
// Where markup is made: of our own texts, and of displays of the person's own cells.
const MARKUP = { "details.js": ["innerHTML = html;"], "lines.js": ["innerHTML = data;"] };
const HERE = fileURLToPath(new URL("./", import.meta.url));
const IMPORT = /^import \{ ([\w, ]+) \} from "\.\/(\w+)\.js";$/gm;
const TOP = /^(?:export )?(?:async )?(?:function|class|const|let)\s+(\w+)/gm;

const files = readdirSync(STATIC).filter((name) => name.endsWith(".js"));
const modules = new Map(files.map((name) => [name, readFileSync(STATIC + name, "utf8")]));
const styles = readdirSync(STATIC).filter((name) => name.endsWith(".css"));
const code = (text) => text.replace(/\/\*[^]*?\*\/|(?<!:)\/\/.*$/gm, "");
const imports = (text) => [...text.matchAll(IMPORT)].map(([, names, from]) => [from, names.split(", ")]);

/** The modules in an order in which each stands behind what it needs. */
function inOrder(...entries) {
  const done = [];
  const visit = (name, path) => {
    assert.ok(!path.includes(name), `imports in a circle: ${[...path, name].join(" → ")}`);
    if (done.includes(name)) return;
    for (const [from] of imports(modules.get(name))) visit(`${from}.js`, [...path, name]);
    done.push(name);
  };
  for (const entry of entries) visit(entry, []);
  return done;
}

function checked(text, name) {
  const run = spawnSync(process.execPath, ["--input-type=module", "--check"], { input: text });
  assert.equal(run.status, 0, `${name}: ${run.stderr}`);
}

for (const [name, text] of modules) {
  test(`${name} keeps the rules`, () => {
    assert.match(text, /^\/\/ \S/, "the first line says what lives there");
    const lines = text.split("\n");
    assert.ok(lines.length < 350, `${lines.length} lines`);
    lines.forEach((line, i) => assert.ok(line.length <= 120, `line ${i + 1} is too long`));
    const plain = code(text);
    for (const line of plain.split("\n").filter((each) => /^\s*import\b/.test(each))) {
      assert.match(line, new RegExp(IMPORT.source), `can't be linked: ${line}`);
    }
    assert.doesNotMatch(plain, /import\(|\beval\b|new Function|document\.write|outerHTML|insertAdjacentHTML/);
    assert.doesNotMatch(text.replaceAll("http://www.w3.org/2000/svg", ""), /https?:\/\//, "nothing is fetched");
    assert.doesNotMatch(plain, /console\.|debugger/);
    const markup = plain.match(/innerHTML[^;]*;/g) ?? [];
    assert.deepEqual(markup, MARKUP[name] ?? []);
    assert.equal(/export default/.test(plain), ENTRIES.includes(name));
    checked(text, name);
  });

  test(`${name} uses what it imports, and imports what there is`, () => {
    const body = code(text).replace(IMPORT, "");
    for (const [from, names] of imports(text)) {
      const there = modules.get(`${from}.js`);
      assert.ok(there, `no ${from}.js`);
      for (const imported of names) {
        assert.match(body, new RegExp(`\\b${imported}\\b`), `${imported} isn't used`);
        assert.match(there, new RegExp(`^export (?:async )?(?:function|class|const|let) ${imported}\\b`, "m"));
      }
    }
  });
}

test("every module is needed, and no two have a top-level name in common", () => {
  assert.deepEqual(inOrder(...ENTRIES).sort(), files.sort());
  const seen = new Map();
  for (const [name, text] of modules) {
    for (const [, top] of text.matchAll(TOP)) {
      assert.ok(!seen.has(top), `${top} is in ${seen.get(top)} and in ${name}`);
      seen.set(top, name);
    }
  }
});

test("what is exported is used: by another module or by a test", () => {
  const tests = readdirSync(HERE).map((name) => readFileSync(HERE + name, "utf8"));
  for (const [name, text] of modules) {
    for (const [, exported] of text.matchAll(/^export (?:function|class|const|let) (\w+)/gm)) {
      const others = [...modules].filter(([other]) => other !== name).map(([, each]) => each);
      const used = [...others, ...tests].some((each) => new RegExp(`\\b${exported}\\b`).test(each));
      assert.ok(used, `${name}: ${exported}`);
    }
  }
});

test("linked into one text each entry's are one module with one export", () => {
  for (const entry of ENTRIES) linksWell(entry);
});

function linksWell(entry) {
  const linked = inOrder(entry)
    .map((name) => modules.get(name).replace(IMPORT, "").replace(/^export (?!default)/gm, ""))
    .join("\n");
  checked(linked, "linked");
  assert.match(linked.match(/^(export|import)\b.*$/gm)?.join(), /^export default \{ initialize.*, render.* \};$/);
}

for (const name of styles) {
  test(`${name} keeps the rules`, () => {
    const text = readFileSync(STATIC + name, "utf8");
    assert.match(text, /^\/\* \S/);
    assert.doesNotMatch(text, /@import|url\(|https?:|!important/);
    assert.equal(text.split("{").length, text.split("}").length);
    const used = [...modules.values()].join("\n") + styles.map((each) => readFileSync(STATIC + each, "utf8")).join();
    for (const [, set] of text.matchAll(/var\((--wb-[\w-]+)\)/g)) {
      const made = used.includes(`${set}:`) || used.includes(`"${set}"`) || used.includes("`--wb-${name}`");
      assert.ok(made, `nothing sets ${set}`);
    }
  });
}

test("classes in style sheets are ones that elements have", () => {
  const scripts = [...modules.values()].join("\n");
  for (const name of styles) {
    const text = readFileSync(STATIC + name, "utf8").replace(/\/\*[^]*?\*\//g, "");
    for (const [, found] of text.matchAll(/\.(wb-[a-z]+(?:-[a-z]+)*)/g)) {
      const made = scripts.includes(found) || /^wb-(p|r|c|m|probe)-|^wb-(costs|pins|types)-table$/.test(found);
      assert.ok(made, `${name}: .${found}`);
    }
  }
});
