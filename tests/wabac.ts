// What wabac, the reader in ReplayWeb.page and Browsertrix, makes of a WACZ.
//
// esbuild makes one file of this and wabac's sources; node runs it (foreign.py):
//   node wabac.mjs FILE.wacz < LOOKUPS > ANSWERS
// LOOKUPS is a JSON list of {url, ts, method, headers, body}. ANSWERS is an object with
// the SHA-256 and size of each member, as wabac's zip reader reads it, and for each
// lookup the status and body that its database replays, or null.
import "fake-indexeddb/auto";
import { createHash } from "node:crypto";
import { openAsBlob } from "node:fs";
import { text } from "node:stream/consumers";

(globalThis as any).self = globalThis;
(globalThis as any).caches = { delete: () => undefined };
console.log = console.warn = console.error; // standard output is for the answers

const { BaseLoader } = await import("./node_modules/@webrecorder/wabac/src/blockloaders");
const { ArchiveRequest } = await import("./node_modules/@webrecorder/wabac/src/request");
const { MultiWACZ } = await import("./node_modules/@webrecorder/wabac/src/wacz/multiwacz");
const { ZipRangeReader } = await import("./node_modules/@webrecorder/wabac/src/wacz/ziprangereader");

class FileLoader extends BaseLoader {
  constructor(private blob: Blob) {
    super(true);
    this.length = blob.size;
  }
  get isValid() {
    return true;
  }
  async getLength() {
    return this.blob.size;
  }
  async doInitialFetch(tryHead = false) {
    return { response: new Response(tryHead ? null : this.blob.stream()), abort: null };
  }
  async getRange(offset: number, length: number, streaming = false) {
    const part = this.blob.slice(offset, offset + length);
    return streaming ? part.stream() : new Uint8Array(await part.arrayBuffer());
  }
}

const EVENT = { clientId: "one", resultingClientId: "one" };
const path = process.argv[2];
const loader = new FileLoader(await openAsBlob(path));
const zip = new ZipRangeReader(loader);
const members: Record<string, unknown> = {};
for (const [name, entry] of Object.entries<any>((await zip.load()) || {})) {
  const { reader } = await zip.loadFile(name);
  const hash = createHash("sha256");
  let size = 0;
  try {
    for await (const chunk of reader) {
      hash.update(chunk);
      size += chunk.length;
    }
    members[name] = { sha256: hash.digest("hex"), size, says: entry.uncompressedSize };
  } catch (error) {
    members[name] = { error: String(error) };
  }
}

const lookups = JSON.parse(await text(process.stdin));
const found: unknown[] = [];
if (lookups.length) {
  const config = { dbname: "db:t", noCache: true, loadUrl: path, decode: false };
  const db = new MultiWACZ(config as any, loader, "wacz");
  await db.initing;
  await db.addNewWACZ({ name: "t", path, loader });
  for (const { url, ts = "", method = "GET", headers = {}, body } of lookups) {
    const asked = new Request(url, { method, headers, body });
    const request = new ArchiveRequest(`${ts}mp_/${url}`, asked);
    try {
      await request.convertPostToGet();
      const answer = await db.getResource(request, "http://r/", EVENT as any, {
        noRedirect: true,
      });
      const payload = answer && new Uint8Array(await answer.getBuffer());
      const told = payload && Buffer.from(payload).toString("latin1");
      found.push(answer && { status: answer.status, body: told });
    } catch (error) {
      found.push({ error: String((error as Error).stack) });
    }
  }
}
process.stdout.write(JSON.stringify({ members, found }));
process.exit(0);
