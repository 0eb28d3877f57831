// Notes which parts of the official client a script drives. The client itself is not changed: its methods are called
// through, and each call is written down in the file that DRIVEN names.
// Usage: const { SpritesClient } = await load(module)
import fs from 'node:fs';

const seen = new Set();

function note(name) {
  if (seen.has(name) || !process.env.DRIVEN) return;
  seen.add(name);
  fs.appendFileSync(process.env.DRIVEN, name + '\n');
}

const listened = new WeakSet();

function listen(on, describe) {
  if (listened.has(on)) return;
  listened.add(on);
  for (const name of Object.getOwnPropertyNames(on)) {
    const { value, writable } = Object.getOwnPropertyDescriptor(on, name);
    if (typeof value !== 'function' || !writable || name === 'constructor') continue;
    on[name] = function (...args) {
      note(describe(this, name));
      return value.apply(this, args);
    };
  }
}

export async function load(module) {
  const offered = { ...(await import(module)) };
  for (const [name, value] of Object.entries(offered)) {
    if (typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value))) {
      for (let proto = value.prototype; proto && proto !== Object.prototype; proto = Object.getPrototypeOf(proto)) {
        if (['EventEmitter', 'Error'].includes(proto.constructor.name)) break;
        listen(proto, (self, method) => `${self.constructor.name}.${method}`);
      }
      listen(value, (_, method) => `${name}.static ${method}`);
      continue;
    }
    if (typeof value === 'function') {
      offered[name] = (...args) => {
        note(name);
        return value(...args);
      };
    }
  }
  return offered;
}
