// Posts messages through a Unix socket with Node's http.request. Reads {socket, url, bodies} from stdin, and prints
// [[status, answer], ...].
import http from 'node:http'

let input = ''
for await (const chunk of process.stdin) input += chunk
const { socket, url, bodies } = JSON.parse(input)
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })

function post(body) {
  return new Promise((resolve, reject) => {
    const { pathname, search } = new URL(url)
    const options = { agent, socketPath: socket, path: pathname + search, method: 'POST' }
    const request = http.request({ ...options, headers: { 'Content-Type': 'application/json' } }, async response => {
      let answer = ''
      for await (const part of response) answer += part
      resolve([response.statusCode, JSON.parse(answer)])
    })
    request.on('error', reject)
    request.end(body)
  })
}

const answers = []
for (const body of bodies) answers.push(await post(body))
agent.destroy()
console.log(JSON.stringify(answers))
