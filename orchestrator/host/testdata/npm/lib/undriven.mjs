// Prints what the official client offers, by its own type declarations, and no script has driven.
// Usage: node undriven.mjs MODULE FILE
import fs from 'node:fs';
import path from 'node:path';

const [module, file] = process.argv.slice(2);
const dist = path.dirname(module);
const driven = new Set(fs.readFileSync(file, 'utf8').trim().split('\n'));
const exported = new Set();
for (const [, names] of fs.readFileSync(path.join(dist, 'index.d.ts'), 'utf8').matchAll(/^export \{([^}]*)\}/gm)) {
  for (const name of names.split(',')) exported.add(name.trim());
}

const classes = new Map(); // by name, its base and its public methods
const functions = new Set();
for (const name of fs.readdirSync(dist).filter((f) => f.endsWith('.d.ts'))) {
  let current;
  for (const line of fs.readFileSync(path.join(dist, name), 'utf8').split('\n')) {
    const opened = /^(?:export )?declare class (\w+)(?:<\w+>)?(?: extends (\w+))?/.exec(line);
    if (opened) classes.set(opened[1], current = { base: opened[2], methods: new Set() });
    const fn = /^export declare function (\w+)/.exec(line);
    if (fn && exported.has(fn[1])) functions.add(fn[1]);
    if (line.startsWith('}')) current = undefined;
    const method = /^    (static )?(\w+)(?:<[^>]*>)?\(/.exec(line);
    if (current && method && method[2] !== 'constructor') current.methods.add((method[1] ?? '') + method[2]);
  }
}

const offered = new Set(functions);
for (const [name, { methods }] of classes) {
  if (!exported.has(name)) continue;
  for (let c = classes.get(name), all = methods; c; c = classes.get(c.base), all = c?.methods ?? []) {
    for (const method of all) offered.add(`${name}.${method}`);
  }
}
if (offered.size < 100) throw new Error(`only ${offered.size} parts found: the declarations are not understood`);
for (const name of [...offered].sort()) {
  if (!driven.has(name)) console.log(name);
}
