// Posts messages with Node's fetch. Reads {url, bodies} from stdin, and prints [[status, answer], ...].
let input = ''
for await (const chunk of process.stdin) input += chunk
const { url, bodies } = JSON.parse(input)
const answers = []
for (const body of bodies) {
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
  answers.push([response.status, await response.json()])
}
console.log(JSON.stringify(answers))
