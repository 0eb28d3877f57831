// The official client runs services, reads their logs, reaches their ports and watches them.
// Usage: node --experimental-websocket services.mjs MODULE BASE_URL TOKEN
import assert from 'node:assert/strict';
import net from 'node:net';
import { load } from './lib/driven.mjs';

const [module, baseURL, token] = process.argv.slice(2);
const { SpritesClient } = await load(module);
const client = new SpritesClient(token, { baseURL });
const name = 'npm-services';
await client.createSprite(name);
const sprite = client.sprite(name);

// Every event of a stream, until one that the caller wants to see.
async function until(stream, wanted) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (wanted?.(event)) return events;
  }
  assert.equal(events.at(-1)?.type, 'complete', JSON.stringify(events));
  return events;
}
const types = (events) => events.map((e) => e.type);

// An echo server on a free port, which it prints.
const server = '$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0"); print "port ",$s->sockport,"\\n"; '
  + 'while(my $c=$s->accept){ my $b; while(sysread($c,$b,65536)){ syswrite($c,$b) } }';
const watcher = sprite.watchPorts ? await sprite.watchPorts() : null;
if (watcher) assert.deepEqual((await watcher.next()).ports, []);

const begun = await until(await sprite.createService('echo', { cmd: 'perl', args: ['-e', server], env: { A: 'b' } }, '1m'), (e) => e.type === 'stdout');
assert.equal(begun[0].type, 'started');
const port = Number(/port (\d+)/.exec(begun.at(-1).data)[1]);
if (watcher) {
  const opened = await watcher.next();
  assert.equal(opened.type, 'port_opened');
  assert.equal(opened.port, port);
  watcher.close();
}

await until(await sprite.createService('after', { cmd: 'sleep', args: ['1000'], needs: ['echo'], httpPort: 3000 }, '10ms'));
await assert.rejects(sprite.createService('other', { cmd: 'true', httpPort: 3001 }), /another service already has an HTTP port configured/);
await assert.rejects(sprite.createService('echo', { cmd: 'true', needs: ['after'] }), /400.*circular/);
await assert.rejects(sprite.deleteService('echo'), /Service conflict/);
await assert.rejects(sprite.getService('none'), /Service not found/);

const list = await sprite.listServices();
assert.deepEqual(list.map((s) => [s.name, s.state.status, s.needs, s.httpPort]), [['after', 'running', ['echo'], 3000], ['echo', 'running', [], undefined]]);
const echo = await sprite.getService('echo');
assert.ok(echo.state.pid > 0 && !Number.isNaN(Date.parse(echo.state.startedAt)));
assert.deepEqual(echo.env, { A: 'b' });

// The proxy.
const session = await sprite.proxyPort(0, port);
const local = session.server.address();
const text = 'x'.repeat(1 << 20);
const back = await new Promise((resolve, reject) => {
  const socket = net.connect(local.port, local.address);
  let got = '';
  socket.on('data', (data) => { got += data; if (got.length === text.length) { socket.destroy(); resolve(got); } });
  socket.on('error', reject);
  socket.on('connect', () => socket.write(text));
});
assert.equal(back, text);
session.close();

const logs = await until(await sprite.getServiceLogs('echo', { lines: 10 }));
assert.deepEqual(types(logs), ['stdout', 'complete']);
assert.equal(logs[0].data, `port ${port}\n`);
assert.equal(logs[1].logFiles.combined, '/.sprite/logs/services/echo.log');

await assert.rejects(sprite.signalService('echo', 'NONE'), /Invalid signal/);
await sprite.signalService('echo', 'TERM');
const again = await until(await sprite.getServiceLogs('echo', { lines: 0, duration: '1m' }), (e) => e.type === 'stdout');
assert.ok(types(again).includes('started'));
assert.equal((await sprite.getService('echo')).state.restartCount, 1);
const restarted = await until(await sprite.restartService('echo', '1m'), (e) => e.type === 'started');
assert.ok(types(restarted).includes('stopping'));

const stopped = await until(await sprite.stopService('after', '5s'));
assert.deepEqual(types(stopped), ['stopping', 'exit', 'stopped', 'complete']);
assert.equal(stopped[1].exitCode, 143);
await assert.rejects(sprite.stopService('after'), /Service not running/);
await assert.rejects(sprite.signalService('after', 'HUP'), /Service not running/);
await until(await sprite.startService('after', '1m'), (e) => e.type === 'started');
await sprite.deleteService('after');
await sprite.deleteService('echo');
assert.deepEqual(await sprite.listServices(), []);

await client.deleteSprite(name);
console.log('ok');
