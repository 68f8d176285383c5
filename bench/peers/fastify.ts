// The peer that most teams would write: Fastify with its schemas for bodies and answers, ioredis as it comes,
// one HINCRBY per request, no logger as in production behind a proxy. The session is the profile.

import { fastify } from 'fastify';
import { Redis } from 'ioredis';

interface Body {
  readonly identity: { readonly customerId?: string | null; readonly sessionId?: string | null };
  readonly productHandle: string;
}

const id = { type: ['string', 'null'], minLength: 1, maxLength: 255 };

const schema = {
  body: {
    type: 'object',
    required: ['identity', 'productHandle'],
    properties: {
      identity: {
        type: 'object',
        properties: {
          customerId: id,
          sessionId: id,
          device: { type: 'string', maxLength: 64 },
          locale: { type: 'string', maxLength: 64 },
        },
      },
      productHandle: { type: 'string', minLength: 1, maxLength: 255 },
    },
  },
  response: {
    200: {
      type: 'object',
      properties: {
        profileId: { type: 'string' },
        productHandle: { type: 'string' },
        count: { type: 'integer' },
      },
    },
  },
};

const redis = new Redis(process.env.REDIS_URL ?? '');
const app = fastify({ logger: false });

app.post<{ Body: Body }>('/product/visit', { schema }, async (request) => {
  const { identity, productHandle } = request.body;
  const profileId = identity.customerId ?? identity.sessionId;
  const count = await redis.hincrby(`visits:${profileId}`, productHandle, 1);
  return { profileId, productHandle, count };
});

const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
process.send?.({ ready: true, port: Number(address.port) });
