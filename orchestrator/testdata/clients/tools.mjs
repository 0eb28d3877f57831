// Calls every tool of lattice mcp with the official client of the protocol: node tools.mjs MODULES stdio LATTICE
// or node tools.mjs MODULES URL TOKEN. The server lets the client decide over stdio, and asks it as a person's.
const [modules, where, secret] = process.argv.slice(2)
const client = modules + '/@modelcontextprotocol/sdk/dist/esm/client/'
const {Client} = await import(client + 'index.js')
const {StdioClientTransport} = await import(client + 'stdio.js')
const {StreamableHTTPClientTransport} = await import(client + 'streamableHttp.js')
const {ElicitRequestSchema} = await import(modules + '/@modelcontextprotocol/sdk/dist/esm/types.js')
const stdio = where === 'stdio', faults = [], called = new Set(), asked = []

const connect = async (capabilities, ...flags) => {
  const c = new Client({name: 'official', version: '1'}, {capabilities})
  c.onerror = error => faults.push(String(error))
  await c.connect(stdio ? new StdioClientTransport({command: secret, args: ['mcp', ...flags], env: process.env, cwd: process.cwd()})
    : new StreamableHTTPClientTransport(new URL(where + '/mcp'), {requestInit: {headers: {Authorization: 'Bearer ' + secret}}}))
  return c
}
const c = await connect({}, '--decide')
const call = async (name, args, want, isError = false, on = c) => {
  called.add(name)
  const result = await on.callTool({name, arguments: args}, undefined, {timeout: 60000})
  const text = JSON.stringify(result).replaceAll('\\"', '"')
  if (!!result.isError !== isError || !text.includes(want)) faults.push(`${name} ${JSON.stringify(args)}: ${text.slice(0, 600)}, want ${want}`)
  return text.match(/run_[a-z2-7]{16}/)?.[0]
}
const {tools} = await c.listTools()
const box = {sprite: 'box-' + (stdio ? 'stdio' : 'http')}, copy = box.sprite + '-copy'
await call('flow_list', {}, 'human-approve')
await call('sprite_create', box, '"name":"' + box.sprite)
await call('file_write', {...box, path: '/workspace/a', content: 'one'}, '"bytes":3')
await call('file_read', {...box, path: '/workspace/a'}, 'one')
await call('file_list', box, '"a"')
await call('sprite_checkpoint', box, '"id":"v1"')
await call('sprite_checkpoints', box, 'v1')
await call('sprite_exec', {...box, command: 'echo two >a; exit 3'}, '"exit_code":3')
await call('sprite_restore', {...box, checkpoint: 'v1'}, '"restored":"v1"')
await call('file_read', {...box, path: '/workspace/a'}, 'one')
await call('sprite_fork', {...box, new_sprite: copy, checkpoint: 'v1'}, copy)
await call('sprite_list', {}, copy)
await call('sprite_remove', {sprite: copy}, copy)
await call('sprite_remove', {sprite: 'none'}, 'not_found', true)

// A run asks a person. Over stdio the client may decide for them; over HTTP only a person may.
const run = await call('flow_run', {flow: 'human-approve', input: {prompt: 'Go on?'}, wait_s: 30}, '"status":"waiting"')
await call('waiting_list', {}, run)
await call('run_list', {}, run)
await call('run_log', {run}, '')
const shown = JSON.stringify(await c.callTool({name: 'run_show', arguments: {run}})).replaceAll('\\"', '"')
called.add('run_show')
const wait = shown.match(/"wait_id":"([^"]+)"/)?.[1]
if (stdio) {
  await call('run_decide', {run, wait, decision: 'perhaps'}, 'bad_input', true)
  await call('run_decide', {run, wait, decision: 'approve'}, run)
  await call('run_show', {run, wait_s: 30}, '"status":"succeeded"')
  for (const [name, args] of [['board_tasks', {}], ['board_move', {task: 'none', status: 'done'}], ['board_comment', {task: 'none', text: 'x'}]]) await call(name, args, '"code"', true)
} else {
  await call('run_cancel', {run}, run)
}
const other = await call('flow_run', {flow: 'human-approve', wait_s: 30}, '"status":"waiting"')
await call('run_cancel', {run: other}, 'cancel')
for (const {name} of tools) if (!called.has(name)) faults.push(`${name} was not called`)
await c.close()

if (stdio) { // the person behind a client that can ask is asked during the call
  const person = await connect({elicitation: {form: {}}}, '--decide')
  person.setRequestHandler(ElicitRequestSchema, request => {
    asked.push(request.params.message)
    return {action: 'accept', content: {decision: 'approve'}}
  })
  await call('flow_run', {flow: 'human-approve', input: {prompt: 'Ask me?'}, wait_s: 30}, '"status":"succeeded"', false, person)
  if (!asked.some(message => message.includes('Ask me?'))) faults.push('the person was asked ' + JSON.stringify(asked))
  await person.close()
}
for (const fault of faults) console.error(fault)
console.log(`${tools.length} tools, ${called.size} called, asked ${asked.length} times`)
process.exit(faults.length ? 1 : 0)
