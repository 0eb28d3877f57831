// The official client creates a sprite, runs commands in it, reads and writes files, checkpoints and restores.
// Usage: node --experimental-websocket sdk.mjs MODULE BASE_URL TOKEN
import assert from 'node:assert/strict';
import { load } from './lib/driven.mjs';
import { framed } from './lib/framed.mjs';

const [module, baseURL, token] = process.argv.slice(2);
const { SpritesClient } = await load(module);
const client = new SpritesClient(token, { baseURL });
const name = 'npm-client';

const created = await client.createSprite(name);
assert.equal(created.name, name);
const sprite = client.sprite(name);

const hello = await sprite.execFile('sh', ['-c', 'echo out; echo err >&2; pwd']);
assert.equal(hello.stdout, 'out\n/home/sprite\n');
assert.equal(hello.stderr, 'err\n');

await assert.rejects(sprite.execFile('sh', ['-c', 'exit 42']), (err) => err.exitCode === 42);

const env = await sprite.execFile('env', [], { env: { GREETING: 'hi there' } });
assert.match(env.stdout, /^GREETING=hi there$/m);

const cat = sprite.spawn('cat', []);
let echoed = '';
cat.stdout.on('data', (data) => { echoed += data; });
cat.once('spawn', () => cat.stdin.end('through stdin'));
assert.equal(await cat.wait(), 0);
assert.equal(echoed, 'through stdin');

const tty = sprite.spawn('sh', ['-c', 'stty size'], { tty: true, rows: 33, cols: 99 });
let screen = '';
tty.stdout.on('data', (data) => { screen += data; });
assert.equal(await tty.wait(), 0);
assert.match(screen, /33 99/);

await framed(
  () => sprite.execFileHTTP('sh', ['-c', 'head -c 100000 /dev/zero | tr "\\0" x; exit 0']),
  (result) => assert.equal(result.stdout.length, 100000),
);

const files = sprite.filesystem('/workspace');
await files.writeFile('kept.txt', 'first');
assert.equal(await files.readFile('kept.txt', 'utf8'), 'first');
await assert.rejects(files.readFile('missing.txt'), (err) => err.code === 'ENOENT');

let id;
for await (const message of await sprite.createCheckpoint('from npm')) {
  assert.notEqual(message.type, 'error', JSON.stringify(message));
  id = /\bv\d+\b/.exec(message.data ?? '')?.[0] ?? id;
}
assert.ok(id, 'a checkpoint id');
assert.equal((await sprite.getCheckpoint(id)).comment, 'from npm');

await files.writeFile('kept.txt', 'second');
await files.writeFile('added.txt', 'later');
const finished = [];
for await (const message of await sprite.restoreCheckpoint(id)) {
  assert.notEqual(message.type, 'error', JSON.stringify(message));
  finished.push(message.type);
}
assert.equal(finished.at(-1), 'complete');
assert.equal(await files.readFile('kept.txt', 'utf8'), 'first');
assert.deepEqual((await files.readdir('.')), ['kept.txt']);

assert.ok((await client.listAllSprites()).some((s) => s.name === name));
await client.deleteSprite(name);
await assert.rejects(client.getSprite(name), /not found/);
console.log('ok');
