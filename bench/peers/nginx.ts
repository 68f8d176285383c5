// nginx with its Lua module: Redis commands as HTTP paths, as webdis has them, over kept connections. One worker, as
// `wishmeter serve` has one.

import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startListening } from '../servers/listening.js';
import { freePort } from '../servers/ports.js';

/** Debian's package libnginx-mod-http-lua. */
const MODULES = '/usr/lib/nginx/modules';
export const LUA_MODULE = `${MODULES}/ngx_http_lua_module.so`;

function configuration(port: number, redis: URL): string {
  return `
load_module ${MODULES}/ndk_http_module.so;
load_module ${LUA_MODULE};
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen 127.0.0.1:${port};
    location / {
      content_by_lua_block {
        local words = {}
        for word in string.gmatch(ngx.var.uri, '[^/]+') do
          words[#words + 1] = '$' .. #word .. '\\r\\n' .. word .. '\\r\\n'
        end
        local redis = ngx.socket.tcp()
        assert(redis:connect('${redis.hostname}', ${redis.port}))
        if redis:getreusedtimes() == 0 then
          redis:send('AUTH ${redis.password}\\r\\n')
          assert(redis:receive() == '+OK')
        end
        redis:send('*' .. #words .. '\\r\\n' .. table.concat(words))
        local reply = assert(redis:receive())
        reply = string.byte(reply) == 36 and '"' .. assert(redis:receive()) .. '"' or string.sub(reply, 2)
        redis:setkeepalive(60000, 512)
        ngx.header.content_type = 'application/json'
        ngx.print('{"', string.match(ngx.var.uri, '%u+'), '":', reply, '}')
      }
    }
  }
}
`;
}

export async function startNginx(dir: string, redisUrl: string) {
  const port = await freePort();
  const folder = join(dir, 'nginx');
  await mkdir(folder);
  const file = join(folder, 'nginx.conf');
  await writeFile(file, configuration(port, new URL(redisUrl)));
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };
  const args = ['-p', folder, '-e', 'stderr', '-c', file];
  const master = await startListening('nginx', port, { file: 'nginx', args, cwd: folder, env });
  return { pid: await workerOf(master.pid), ready: master.ready, stop: () => master.stop() };
}

/** The process that answers. The master's other child ends it with this process (src/extras/embedded/child.ts). */
async function workerOf(master = 0): Promise<number> {
  for (;;) {
    const children = readFileSync(`/proc/${master}/task/${master}/children`, 'latin1').match(/\d+/g);
    const worker = children?.find((pid) => readFileSync(`/proc/${pid}/comm`, 'latin1').trim() === 'nginx');
    if (worker !== undefined) return Number(worker);
    await sleep(10);
  }
}
