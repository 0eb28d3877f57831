// The official client's filesystem class, every method of it.
// Usage: node --experimental-websocket files.mjs MODULE BASE_URL TOKEN
import assert from 'node:assert/strict';
import { load } from './lib/driven.mjs';

const [module, baseURL, token] = process.argv.slice(2);
const { SpritesClient } = await load(module);
const client = new SpritesClient(token, { baseURL });
await client.createSprite('npm-files');
const sprite = client.sprite('npm-files');
const files = sprite.filesystem('/workspace');
const code = (want) => (err) => err.code === want;

// Contents.
await files.writeFile('a.txt', 'one', { mode: 0o640 });
assert.equal(await files.readFile('a.txt', 'utf8'), 'one');
await files.writeFile('/workspace/deep/er/b.bin', Buffer.from([0, 255, 10]));
assert.deepEqual(await files.readFile('deep/er/b.bin'), Buffer.from([0, 255, 10]));
await files.appendFile('a.txt', ' two');
await files.appendFile('fresh.txt', 'begun');
assert.equal(await files.readFile('a.txt', 'utf8'), 'one two');
assert.equal(await files.readFile('fresh.txt', 'utf8'), 'begun');
await files.writeJSON('j.json', { n: 1 }, { spaces: 2 });
assert.deepEqual(await files.readJSON('j.json'), { n: 1 });

// What is there.
const st = await files.stat('a.txt');
assert.ok(st.isFile() && !st.isDirectory() && !st.isSymbolicLink());
assert.equal(st.size, 7);
assert.equal(st.mode, 0o640);
assert.ok(Math.abs(st.mtime.getTime() - Date.now()) < 3600e3);
assert.equal(await files.exists('a.txt'), true);
assert.equal(await files.exists('none'), false);
await files.mkdir('made/here', { recursive: true, mode: 0o755 });
assert.deepEqual(await files.readdir('made/here'), []);
await sprite.execFile('ln', ['-s', 'a.txt', '/workspace/link']);
assert.deepEqual((await files.readdir('.')).sort(), ['a.txt', 'deep', 'fresh.txt', 'j.json', 'link', 'made']);
assert.deepEqual((await files.readdir('.', { recursive: true, pattern: '*.bin' })), ['b.bin']);
const typed = Object.fromEntries((await files.readdir('.', { withFileTypes: true })).map((d) => [d.name, d]));
assert.ok(typed.deep.isDirectory() && typed.link.isSymbolicLink() && typed['a.txt'].isFile());

// Changes.
await files.rename('fresh.txt', 'renamed.txt');
assert.equal(await files.readFile('renamed.txt', 'utf8'), 'begun');
await files.copyFile('a.txt', 'copies/a.txt', { preserveAttrs: true });
await files.copyFile('deep', 'copies/deep', { recursive: true });
assert.deepEqual(await files.readFile('copies/deep/er/b.bin'), Buffer.from([0, 255, 10]));
await files.chmod('a.txt', 0o600);
assert.equal((await files.stat('a.txt')).mode, 0o600);
await files.chmod('copies', 0o700, { recursive: true });
assert.equal((await files.stat('copies/a.txt')).mode, 0o700);
const uid = Number((await sprite.execFile('id', ['-u'])).stdout);
await files.chown('a.txt', { uid, gid: undefined });
await assert.rejects(files.chown('a.txt', {}), TypeError);
await files.rm('renamed.txt');
await files.rm('copies', { recursive: true });
await files.rm('renamed.txt', { force: true });

// Errors.
await assert.rejects(files.readFile('none'), code('ENOENT'));
await assert.rejects(files.stat('none'), code('ENOENT'));
await assert.rejects(files.rm('none'), code('ENOENT'));
await assert.rejects(files.rm('deep'), code('ENOTEMPTY'));
await assert.rejects(files.readFile('deep'), code('EISDIR'));
await assert.rejects(files.readdir('a.txt/x'), code('ENOTDIR'));
await assert.rejects(files.copyFile('deep', 'x'), code('EISDIR'));
await assert.rejects(files.rename('none', 'x'), code('ENOENT'));
// A sprite without a root of its own refuses what asks for it.
await files.writeFile('roots.txt', 'x');
await files.rm('roots.txt', { asRoot: true }).catch((e) => assert.equal(e.code, 'EPERM'));
await files.rm('roots.txt', { force: true });
await assert.rejects(client.sprite('no-such').filesystem('/').readFile('x'), code('UNKNOWN'));

// Changes as they happen.
const watcher = await files.watch('.', { recursive: true });
const seen = [];
let subscribed;
for await (const event of watcher) {
  if (event.type === 'subscribed') {
    subscribed = event.paths;
    await files.writeFile('w/new', 'x');
    continue;
  }
  assert.equal(event.type, 'event', JSON.stringify(event));
  seen.push(event);
  if (event.path === '/workspace/w/new' && event.event === 'create') break;
}
assert.deepEqual(subscribed, ['/workspace']);
assert.ok(seen.some((e) => e.path === '/workspace/w' && e.event === 'create' && e.isDir === true));
assert.ok(seen.every((e) => !Number.isNaN(Date.parse(e.timestamp))));
assert.ok(watcher.isClosed());

await client.deleteSprite('npm-files');
console.log('ok');
