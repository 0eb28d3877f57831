// The official client changes, lists, watches, checks and restarts a sprite, leaves sessions, finds and ends them, and
// runs commands over a control channel.
// Usage: node --experimental-websocket life.mjs MODULE BASE_URL TOKEN
import assert from 'node:assert/strict';
import { load } from './lib/driven.mjs';
import { framed } from './lib/framed.mjs';

const [module, baseURL, token] = process.argv.slice(2);
const { SpritesClient } = await load(module);
const client = new SpritesClient(token, { baseURL });
const name = 'npm-life';

const states = await client.watchSprites({ prefix: name });
const sprite = await client.createSprite(name, {
  config: { ramMB: 512, cpus: 1, storageGB: 2 }, environment: { someName: 'kept' }, labels: ['one'], urlSettings: { auth: 'public' }, waitForCapacity: true, runtime: 'default',
});
assert.equal(sprite.status, 'cold');
assert.equal(sprite.config.ramMB, 512);
assert.equal(sprite.urlSettings.auth, 'public');
assert.deepEqual(sprite.labels, ['one']);
assert.equal((await sprite.execFile('sh', ['-c', 'echo $someName'])).stdout, 'kept\n');

const seen = [];
for await (const event of states) {
  assert.equal(event.organization.name, 'local');
  if (event.name === name) seen.push(event.status);
  if (event.status === 'running') break;
}
assert.deepEqual(seen, ['cold', 'running']);

const updated = await sprite.update({ labels: ['two', 'three'], urlSettings: { auth: 'sprite' } });
assert.deepEqual(updated.labels, ['two', 'three']);
assert.equal(updated.urlSettings.auth, 'sprite');
assert.ok(updated.lastRunningAt instanceof Date);
const list = await client.listSprites({ prefix: name, maxResults: 100 });
assert.equal(list.sprites.length, 1);
assert.equal(list.running + list.warm + list.cold, 1);
assert.equal(list.organizationName, 'local');

const spawned = sprite.createSession('sh', ['-c', 'echo marker; read line; echo got $line; sleep 600'], { maxRunAfterDisconnect: '1h' });
await new Promise((resolve) => spawned.stdout.on('data', (data) => String(data).includes('marker') && resolve()));
const [session] = await sprite.listSessions();
assert.match(session.command, /\/sh -c/);
assert.equal(session.tty, true);
assert.equal(session.workdir, '/home/sprite');
spawned.wsCmd.close();
const again = sprite.attachSession(session.id);
let screen = '';
await new Promise((resolve, reject) => {
  again.on('error', reject);
  again.stdout.on('data', (data) => {
    const before = screen.includes('marker');
    screen += data;
    if (!before && screen.includes('marker')) again.stdin.write('word\n');
    if (screen.includes('got word')) resolve();
  });
});
const said = [];
for await (const event of await sprite.killSession(session.id, 'SIGKILL', '5s')) said.push(event);
assert.deepEqual(said.map((event) => event.type), ['signal', 'exited', 'complete']);
assert.equal(said.at(-1).exitCode, 137);
assert.equal((await sprite.listSessions()).length, 0);
await assert.rejects(sprite.killSession('1'), /session not found: 1/);

// A quiet command that is told to end.
const quiet = sprite.spawn('sleep', ['600']);
quiet.once('spawn', () => quiet.kill('SIGTERM'));
assert.equal(await quiet.wait(), 143);

await framed(() => sprite.execFileHTTP('cat', [], { input: 'x'.repeat(50000) }), (result) => assert.equal(result.stdout.length, 50000));

const check = await sprite.check();
assert.equal(check.status, 'healthy');
assert.ok(check.checkedAt instanceof Date);
assert.equal((await sprite.restart()).spriteName, name);
await sprite.upgrade();

const controlled = new SpritesClient(token, { baseURL, controlMode: true }).sprite(name);
for (const text of ['first', 'second']) {
  assert.equal((await controlled.execFile('echo', [text])).stdout, text + '\n');
}
assert.ok(controlled.hasControlConnection());
await Promise.all([1, 2, 3].map(async (n) => assert.equal((await controlled.execFile('echo', [String(n)])).stdout, n + '\n')));
controlled.closeControlConnection();

await sprite.delete();
await assert.rejects(client.getSprite(name), /not found/);
console.log('ok');
process.exit(0);
