// What both houses share: the public facilitator of npm behind HTTP, as it would be
// served by anybody, and a desk where tests ask for funds.
import { createServer } from 'node:http';

async function read(request) {
  const parts = [];
  for await (const part of request) {
    parts.push(part);
  }
  return parts.length === 0 ? {} : JSON.parse(Buffer.concat(parts).toString());
}

// serve answers POST and GET by path with what handlers give, and 500 with what they throw.
export function serve(handlers) {
  const server = createServer(async (request, response) => {
    const answer = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body, (_, v) => (typeof v === 'bigint' ? Number(v) : v)));
    };
    const handler = handlers[new URL(request.url, 'http://x').pathname];
    if (!handler) {
      return answer(404, { error: 'not found' });
    }
    try {
      answer(200, await handler(await read(request)));
    } catch (err) {
      console.error(err);
      answer(500, { error: String(err?.message ?? err) });
    }
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}

// facilitatorRoutes are those of the protocol.
export function facilitatorRoutes(facilitator) {
  return {
    '/facilitator/supported': () => facilitator.getSupported(),
    '/facilitator/verify': ({ paymentPayload, paymentRequirements }) => facilitator.verify(paymentPayload, paymentRequirements),
    '/facilitator/settle': ({ paymentPayload, paymentRequirements }) => facilitator.settle(paymentPayload, paymentRequirements),
  };
}

// ready tells whoever started the house what is in it, and ends with them.
export function ready(facts) {
  console.log(JSON.stringify(facts));
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
}
