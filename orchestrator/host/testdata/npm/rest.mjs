// The official client's remaining parts: its other ways to make, change and remove sprites, all that a command and a control
// channel can be told, streams read by hand, several ports at once, policies, and what its errors say.
// Usage: node --experimental-websocket rest.mjs MODULE BASE_URL TOKEN LIMITED_URL (of a host that makes one sprite)
import assert from 'node:assert/strict';
import net from 'node:net';
import { load } from './lib/driven.mjs';
import { framed } from './lib/framed.mjs';

const [module, baseURL, token, limitedURL] = process.argv.slice(2);
const {
  SpritesClient, ExecError, APIError, FilesystemError, StreamID, parseAPIError, ERR_CODE_CREATION_RATE_LIMITED, ERR_CODE_CONCURRENT_LIMIT_EXCEEDED,
  ProxyManager, ControlConnection, SpriteCommand, proxyPort, proxyPorts,
} = await load(module);
const client = new SpritesClient(token, { baseURL: baseURL + '/', timeout: 20000 });
const name = 'npm-rest';

// Sprites, in the client's other words.
const sprite = await client.createSprite(name, { ramMB: 256 }, { labels: ['l'] });
assert.equal(sprite.config.ramMB, 256);
const second = await client.createSprite(name + '-2', { region: 'here' });
await client.updateURLSettings(name, { auth: 'public' });
assert.equal((await client.getSprite(name)).urlSettings.auth, 'public');
await sprite.updateURLSettings({ auth: 'sprite' });
assert.equal((await client.updateSprite(name, { labels: ['m'] })).urlSettings.auth, 'sprite');
await client.upgradeSprite(name);
assert.equal((await client.restartSprite(name)).spriteName, name);
assert.equal((await client.checkSprite(name)).status, 'healthy');
const page = await client.listSprites({ prefix: name, maxResults: 1 });
assert.equal(page.hasMore, true);
assert.equal((await client.listSprites({ prefix: name, maxResults: 1, continuationToken: page.nextContinuationToken })).sprites[0].name, second.name);
assert.equal((await client.listAllSprites(name)).length, 2);
const watched = await client.watchSprites({ prefix: name });
await watched.processAll((event) => { if (event.name === second.name) watched.close(); });
await second.destroy();
await assert.rejects(second.destroy(), /sprite not found/);
await assert.rejects(client.updateSprite(second.name, { labels: [] }), /sprite not found/);
await assert.rejects(client.checkSprite(second.name), /sprite not found/);

// A command, and all that it can be told.
assert.equal((await sprite.exec('echo one two')).stdout, 'one two\n');
const bytes = await sprite.execFile('printf', ['\\377'], { encoding: 'buffer' });
assert.deepEqual(Buffer.from(bytes.stdout), Buffer.from([255]));
await assert.rejects(sprite.exec('sh -c false'), (err) => err instanceof ExecError && err.exitCode === 1 && err.result.exitCode === 1 && err.stdout === '');
await assert.rejects(sprite.execFile('no-such-program'), (err) => err.exitCode === 127 && /no-such-program/.test(err.stderr));
await framed(() => sprite.execFileHTTP('sh', ['-c', 'echo bad >&2; exit 9']), (err) => assert.deepEqual([err.exitCode, err.stderr], [9, 'bad\n']));
const there = sprite.spawn('sh', ['-c', 'pwd; echo $A'], { cwd: '/tmp', env: { A: 'a b' } });
let said = '';
there.stdout.on('data', (data) => { said += data; });
assert.equal(await there.wait(), 0);
assert.equal(there.exitCode(), 0);
assert.equal(said, '/tmp\na b\n');

const tty = new SpriteCommand(sprite, 'sh', ['-c', 'echo ready; until [ "$(stty size)" = "40 100" ]; do sleep 0.02; done; trap "echo bye; exit 0" USR1; echo sized; while :; do sleep 0.02; done'], { tty: true, rows: 24, cols: 80 });
const messages = [];
tty.on('message', (m) => messages.push(m));
let screen = '';
tty.stdout.on('data', (data) => {
  const before = screen;
  screen += data;
  if (!before.includes('ready') && screen.includes('ready')) tty.resize(100, 40);
  if (!before.includes('sized') && screen.includes('sized')) tty.signal('USR1');
});
await tty.start();
assert.equal(await tty.wait(), 0);
assert.match(screen, /bye/);
const info = messages.find((m) => m.type === 'session_info');
assert.equal(info.tty, true);
assert.equal(info.is_owner, true);

// Ports that a terminal's command opens are told.
const server = '$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0"); print "port ",$s->sockport,"\\n"; '
  + 'while(my $c=$s->accept){ my $b; sysread($c,$b,100); syswrite($c,"got $b"); close $c }';
const listening = sprite.spawn('perl', ['-e', server], { tty: true });
const opened = await new Promise((resolve, reject) => {
  listening.on('error', reject);
  listening.on('message', (m) => m.type === 'port_opened' && resolve(m));
});
assert.equal(opened.address, '127.0.0.1');
assert.ok(opened.pid > 0);
const ports = await sprite.watchPorts();
assert.equal((await ports.next()).ports[0].port, opened.port);

// Several ports at once, and their sessions.
const get = (port, text) => new Promise((resolve, reject) => {
  const socket = net.connect(port, '127.0.0.1', () => socket.write(text));
  let got = '';
  socket.on('data', (data) => { got += data; });
  socket.on('error', reject);
  socket.on('close', () => resolve(got));
});
const sessions = [
  ...await sprite.proxyPorts([{ localPort: 0, remotePort: opened.port }, { localPort: 0, remotePort: opened.port, remoteHost: 'localhost' }]),
  ...await proxyPorts(client, name, [{ localPort: 0, remotePort: opened.port, remoteHost: '127.0.0.1' }]),
  await proxyPort(client, name, 0, opened.port),
];
const manager = new ProxyManager();
for (const session of sessions) {
  manager.addSession(session);
  assert.equal(await get(Number(session.localAddr().split(':')[1]), 'this'), 'got this');
}
const over = Promise.all([manager.waitAll(), sessions[0].wait()]);
manager.closeAll();
await over;
listening.kill('SIGTERM');
await listening.wait();
const event = await ports.next();
assert.equal(event.type, 'port_closed');
assert.equal(event.port, opened.port);
ports.close();
assert.ok(ports.isClosed());

// Streams, read by hand.
const made = await sprite.createCheckpoint('by hand');
assert.equal((await made.next()).type, 'info');
let last;
await made.processAll((message) => { last = message; });
assert.equal(last.type, 'complete');
const [current, point] = await sprite.listCheckpoints();
assert.equal(current.id, 'Current');
assert.equal(point.comment, 'by hand');
await assert.rejects(sprite.listCheckpoints(point.id), SyntaxError); // the history is lines of text, which this client does not read
await assert.rejects(sprite.getCheckpoint('v99'), /Checkpoint not found: v99/);
const restoring = await sprite.restoreCheckpoint(point.id);
assert.equal((await restoring.next()).type, 'info');
await restoring.processAll((message) => { last = message; });
assert.equal(last.type, 'complete');
restoring.close();
const cut = await sprite.createCheckpoint();
cut.close();
await assert.rejects(sprite.restoreCheckpoint('v99'), /checkpoint not found/);

const started = await sprite.createService('svc', { cmd: 'sleep', args: ['1000'] }, '10ms');
assert.equal((await started.next()).type, 'started');
await started.processAll((event) => { last = event; });
assert.equal(last.type, 'complete');
(await sprite.getServiceLogs('svc')).close();
await sprite.deleteService('svc');

const victim = sprite.createSession('sleep', ['1000']);
await new Promise((resolve) => victim.on('message', (m) => m.type === 'session_info' && resolve()));
const [session] = await sprite.listSessions();
const ending = await sprite.killSession(session.id);
assert.equal((await ending.next()).type, 'signal');
await ending.processAll((event) => { last = event; });
assert.deepEqual([last.type, last.exitCode], ['complete', 143]);
ending.close();
assert.equal(await victim.wait(), 0); // this client takes a terminal's exit from the close of its socket

// A control channel, by hand.
const controlled = new SpritesClient(token, { baseURL, controlMode: true }).sprite(name);
assert.equal(controlled.useControlMode(), true);
assert.equal(sprite.useControlMode(), false);
const pooled = await controlled.getControlConnection();
assert.ok(pooled.isActive() && controlled.hasControlConnection());
controlled.closeControlConnection();
const control = new ControlConnection(controlled);
await control.connect();
control.setActive(true);
const op = await control.startOp('exec', { cmd: ['cat'], stdin: true });
let echoed = '';
op.on('stdout', (data) => { echoed += data; });
op.write(Buffer.from('over control'));
op.sendEOF();
assert.equal(await op.wait(), 0);
assert.ok(op.isClosed());
assert.equal(op.getExitCode(), 0);
assert.equal(echoed, 'over control');
control.clearOpConn();
const terminal = await control.startOp('exec', { cmd: ['sh', '-c', 'until [ "$(stty size)" = "41 99" ]; do sleep 0.02; done; echo sized; exec sleep 1000'], tty: true, rows: 24, cols: 80 });
terminal.on('stdout', (data) => String(data).includes('sized') && terminal.signal('SIGTERM'));
terminal.resize(99, 41);
assert.equal(await terminal.wait(), 143);
const odd = await control.startOp('no.such.op');
await new Promise((resolve) => odd.on('error', (err) => { assert.match(err.message, /no operation/); resolve(); }));
const left = await control.startOp('exec', { cmd: ['sleep', '1000'] });
left.close();
const gone = new Promise((resolve) => control.once('close', resolve));
control.close();
await gone;
assert.ok(control.isClosed());

// Policies.
const rules = [{ domain: 'example.com', action: 'allow' }, { include: 'defaults' }];
await sprite.updateNetworkPolicy({ rules });
assert.deepEqual((await sprite.getNetworkPolicy()).rules, rules);
await assert.rejects(sprite.updateNetworkPolicy({ rules: [{ domain: 'x' }] }), /Invalid policy/);
await sprite.updatePrivilegesPolicy({ profile: 'minimal' });
assert.equal((await sprite.getPrivilegesPolicy()).profile, 'minimal');
await sprite.deletePrivilegesPolicy();
assert.equal((await sprite.getPrivilegesPolicy()).profile, '');
await sprite.updateResourcesPolicy({ memory: { limitMB: 300 } });
assert.equal((await sprite.getResourcesPolicy()).memory.limitMB, 300);
await assert.rejects(sprite.updateResourcesPolicy({ memory: { limitMB: -1 } }), /400/);
await sprite.deleteResourcesPolicy();
assert.equal((await sprite.getResourcesPolicy()).memory, undefined);

// Errors, as programs tell them apart.
const files = sprite.filesystem('/workspace');
await assert.rejects(files.readFile('none'), (err) => err instanceof FilesystemError && err.code === 'ENOENT' && err.path === '/workspace/none');
await assert.rejects(client.getSprite('none'), /sprite not found|not found/i);
await assert.rejects(client.createSprite('Bad Name'), (err) => err instanceof APIError && err.statusCode === 400 && !err.isRateLimitError());
await assert.rejects(client.createSprite(name), (err) => err instanceof APIError && err.statusCode === 409);
await assert.rejects(new SpritesClient('wrong', { baseURL }).createSprite('x'), (err) => err.statusCode === 401 && err.errorCode === 'authentication failed');
await assert.rejects(client.sprite('none').execFile('true'));
await assert.rejects(client.sprite('none').listSessions(), /sprite not found/);
await assert.rejects(client.sprite('none').createCheckpoint(), /sprite not found/);
const limited = new SpritesClient(token, { baseURL: limitedURL });
await limited.createSprite('first');
await assert.rejects(limited.createSprite('next'), (err) => {
  assert.ok(err instanceof APIError && err.isRateLimitError() && err.isCreationRateLimited() && !err.isConcurrentLimitExceeded());
  assert.equal(err.errorCode, ERR_CODE_CREATION_RATE_LIMITED);
  assert.equal(err.limit, 1);
  assert.equal(err.currentCount, 1);
  assert.equal(err.rateLimitLimit, 1);
  assert.equal(err.rateLimitRemaining, 0);
  assert.ok(err.windowSeconds > 0 && err.getRetryAfterSeconds() > 0 && err.retryAfterHeader > 0 && err.rateLimitReset > 1e9);
  return true;
});
assert.equal(parseAPIError(429, JSON.stringify({ error: ERR_CODE_CONCURRENT_LIMIT_EXCEEDED })).isConcurrentLimitExceeded(), true);
assert.equal(StreamID.Stdout, 1);

// Tokens are made by the service alone; the client always asks that, so its request is brought here.
const { fetch } = globalThis;
globalThis.fetch = (url, options) => fetch(String(url).replace('https://api.sprites.dev', baseURL), options);
await assert.rejects(SpritesClient.createToken('macaroon', 'org', 'invited'), (err) => err.statusCode === 401);
globalThis.fetch = fetch;

await sprite.delete();
console.log('ok');
process.exit(0);
