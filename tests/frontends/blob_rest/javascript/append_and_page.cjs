// Append and page blobs with @azure/storage-blob, a scenario a function; prints one line each.
const { BlobServiceClient } = require("@azure/storage-blob");
const assert = require("node:assert/strict");

const [connectionString] = process.argv.slice(2);
const service = BlobServiceClient.fromConnectionString(connectionString);
let count = 0;

async function fresh() {
  const container = service.getContainerClient(`js-${++count}-${process.pid}`);
  await container.create();
  return container;
}

async function bytes(response) {
  const parts = [];
  for await (const part of response.readableStreamBody) parts.push(part);
  return Buffer.concat(parts);
}

const refused = (promise, status, code) =>
  assert.rejects(promise, (error) => error.statusCode === status && error.code === code);

// The SDK's `count` is the last byte's offset less the first's.
const sized = (list) => list.map(({ offset, count: size }) => [offset, size + 1]);
const ranges = (response) => sized(response.pageRange);

const scenarios = {
  async appends() {
    const log = (await fresh()).getAppendBlobClient("log");
    await log.create({ metadata: { app: "shop" } });
    const first = await log.appendBlock("one", 3);
    assert.equal(first.blobAppendOffset, "0");
    assert.equal(first.blobCommittedBlockCount, 1);
    const second = await log.appendBlock("two", 3, { conditions: { appendPosition: 3 } });
    assert.equal(second.blobAppendOffset, "3");
    await refused(
      log.appendBlock("x", 1, { conditions: { appendPosition: 3 } }),
      412, "AppendPositionConditionNotMet");
    await refused(
      log.appendBlock("x", 1, { conditions: { maxSize: 6 } }), 412, "MaxBlobSizeConditionNotMet");
    assert.equal((await bytes(await log.download())).toString(), "onetwo");
    await log.createIfNotExists();
    assert.equal((await log.getProperties()).contentLength, 6);
  },
  async appends_in_parallel() {
    const log = (await fresh()).getAppendBlobClient("log");
    await log.create();
    const done = await Promise.all(
      Array.from({ length: 30 }, (_, n) => log.appendBlock(`<${n}>`.padEnd(10), 10)));
    const offsets = done.map((one) => Number(one.blobAppendOffset)).sort((a, b) => a - b);
    assert.deepEqual(offsets, Array.from({ length: 30 }, (_, n) => n * 10));
    assert.equal((await bytes(await log.download())).length, 300);
  },
  async seals() {
    const log = (await fresh()).getAppendBlobClient("log");
    await log.create();
    await log.appendBlock("done", 4);
    assert.equal((await log.seal()).isSealed, true);
    assert.equal((await log.getProperties()).isSealed, true);
    await refused(log.appendBlock("more", 4), 409, "BlobIsSealed");
  },
  async writes_and_lists_pages() {
    const disk = (await fresh()).getPageBlobClient("disk");
    await disk.create(4096, { blobSequenceNumber: 3 });
    const done = await disk.uploadPages("x".repeat(1024), 512, 1024);
    assert.equal(done.blobSequenceNumber, 3);
    await disk.clearPages(1024, 512);
    assert.deepEqual(ranges(await disk.getPageRanges(0, 4096)), [[512, 512]]);
    const expected = Buffer.alloc(4096);
    expected.fill("x", 512, 1024);
    assert.ok((await bytes(await disk.download())).equals(expected));
    assert.ok((await disk.downloadToBuffer()).equals(expected));
    await refused(
      disk.uploadPages("y".repeat(512), 0, 512, { conditions: { ifSequenceNumberEqualTo: 4 } }),
      412, "SequenceNumberConditionNotMet");
    const listed = [];
    for await (const range of disk.listPageRanges()) listed.push([range.start, range.end]);
    assert.deepEqual(listed, [[512, 1023]]);
  },
  async tells_what_changed() {
    const disk = (await fresh()).getPageBlobClient("disk");
    await disk.create(1 << 20);
    await disk.uploadPages("a".repeat(2048), 0, 2048);
    const { snapshot } = await disk.createSnapshot();
    await disk.uploadPages("b".repeat(512), 4096, 512);
    await disk.clearPages(512, 512);
    const diff = await disk.getPageRangesDiff(0, 1 << 20, snapshot);
    assert.deepEqual(ranges(diff), [[4096, 512]]);
    assert.deepEqual(sized(diff.clearRange), [[512, 512]]);
    const before = disk.withSnapshot(snapshot);
    assert.deepEqual(ranges(await before.getPageRanges()), [[0, 2048]]);
    const changed = [];
    for await (const range of disk.listPageRangesDiff(0, 1 << 20, snapshot, { maxPageSize: 1 }))
      changed.push([range.start, range.end, Boolean(range.isClear)]);
    assert.deepEqual(changed, [[512, 1023, true], [4096, 4607, false]]);
  },
  async resizes_and_counts() {
    const disk = (await fresh()).getPageBlobClient("disk");
    await disk.create(1024);
    await disk.resize(4096);
    assert.equal((await disk.getProperties()).contentLength, 4096);
    assert.equal((await disk.updateSequenceNumber("update", 7)).blobSequenceNumber, 7);
    assert.equal((await disk.updateSequenceNumber("max", 5)).blobSequenceNumber, 7);
    assert.equal((await disk.updateSequenceNumber("increment")).blobSequenceNumber, 8);
  },
  async copies_from_urls() {
    const container = await fresh();
    const source = container.getBlockBlobClient("source");
    await source.upload("z".repeat(1024), 1024);
    const { BlobSASPermissions } = require("@azure/storage-blob");
    const url = await source.generateSasUrl({
      permissions: BlobSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 3600_000),
    });
    const disk = container.getPageBlobClient("disk");
    await disk.create(4096);
    await disk.uploadPagesFromURL(url, 512, 1024, 512);
    assert.deepEqual(ranges(await disk.getPageRanges()), [[1024, 512]]);
    const log = container.getAppendBlobClient("log");
    await log.create();
    assert.equal((await log.appendBlockFromURL(url, 0, 100)).blobAppendOffset, "0");
    assert.equal((await bytes(await log.download())).toString(), "z".repeat(100));
    const follower = container.getPageBlobClient("follower");
    const { snapshot } = await disk.createSnapshot();
    await follower.startCopyIncremental(`${disk.url}?snapshot=${encodeURIComponent(snapshot)}`);
    assert.equal((await follower.getProperties()).isIncrementalCopy, true);
  },
};

async function main() {
  for (const [name, scenario] of Object.entries(scenarios)) {
    let error = null;
    try {
      await scenario();
    } catch (failure) {
      error = failure.stack || String(failure);
    }
    console.log(JSON.stringify({ name, error }));
  }
}

main();
