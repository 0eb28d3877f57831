// Holds the interface of a leader against its description: node interface.mjs MODULES URL TOKEN
// The description must be valid by the schemas of OpenAPI, and each answer by the description. It prints what it did, and ends
// with 1 and the faults otherwise.
import {createRequire} from 'node:module'
const [modules, url, token] = process.argv.slice(2)
const {Validator} = await import(modules + '/@seriousme/openapi-schema-validator/index.js')
const require = createRequire(modules + '/@seriousme/openapi-schema-validator/')
const Ajv = require('ajv/dist/2020').default
const faults = []
const ask = (method, path, body) => fetch(url + path, {method, body, headers: {Authorization: 'Bearer ' + token}, signal: AbortSignal.timeout(20000)})

const doc = await (await ask('GET', '/api/v1/openapi.json')).json()
const judge = async changed => new Validator().validate(changed)
const verdict = await judge(structuredClone(doc))
if (!verdict.valid) faults.push('the description: ' + JSON.stringify(verdict.errors))
const broken = structuredClone(doc)
broken.paths['/api/v1/runs'].get.responses = 'none'
if ((await judge(broken)).valid) faults.push('a broken description is valid')

const ajv = new Ajv({strict: false, allErrors: true})
require('ajv-formats').default(ajv)
ajv.addSchema({$id: 'doc', components: doc.components})
const point = schema => JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"doc#/components'))
const check = (what, schema, value) => {
  const valid = ajv.compile(point(schema))
  if (!valid(value)) faults.push(`${what}: ${JSON.stringify(valid.errors)} in ${JSON.stringify(value).slice(0, 400)}`)
}
if (ajv.compile(point({$ref: '#/components/schemas/Problem'}))({status: 'none'})) faults.push('every problem is valid')

let results = 0, problems = 0
for (const [path, methods] of Object.entries(doc.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const ok = operation.responses['200']
    if (path.includes('/lattice') || method !== 'get' && method !== 'post') continue
    for (const id of path.includes('{id}') ? ['latest', 'box', 'no-such'] : ['']) {
      const what = `${method.toUpperCase()} ${path} of ${id}`
      if (method === 'post' && id === 'latest') continue // the run is to stay as it is
      const answer = await ask(method.toUpperCase(), path.replace('{id}', id), method === 'post' ? '{}' : undefined)
      const media = answer.headers.get('Content-Type') ?? ''
      if (answer.status !== 200) {
        problems++
        if (media !== 'application/problem+json') faults.push(`${what}: ${answer.status} ${media}`)
        check(what, {$ref: '#/components/schemas/Problem'}, await answer.json())
      } else if (media === 'application/json') {
        results++
        check(what, ok.content[media].schema, await answer.json())
      } else {
        if (ok.content && !ok.content[media] && answer.body) faults.push(`${what}: ${media} is not described`)
        await answer.body?.cancel() // streams, and bytes without a schema
      }
    }
  }
}
for (const fault of faults) console.error(fault)
console.log(`${results} results and ${problems} problems`)
process.exit(faults.length > 0 || results < 25 || problems < 25 ? 1 : 0)
