// What an application does with @azure/storage-blob, a scenario a function; prints one line each.
const { BlobServiceClient } = require("@azure/storage-blob");
const assert = require("node:assert/strict");

const [connectionString] = process.argv.slice(2);
const service = BlobServiceClient.fromConnectionString(connectionString);
let count = 0;

async function fresh() {
  const container = service.getContainerClient(`js-${++count}-${process.pid}`);
  await container.create({ metadata: { Made: "here" } });
  return container;
}

async function text(response) {
  const parts = [];
  for await (const part of response.readableStreamBody) parts.push(part);
  return Buffer.concat(parts).toString();
}

const refused = (promise, status, code) =>
  assert.rejects(promise, (error) => error.statusCode === status && error.code === code);

const scenarios = {
  async uploads_and_downloads() {
    const blob = (await fresh()).getBlockBlobClient("dir/näme #1.txt");
    await blob.upload("hello", 5, {
      blobHTTPHeaders: { blobContentType: "text/plain" }, metadata: { a: "b" }, tags: { k: "v" },
    });
    const response = await blob.download();
    assert.equal(await text(response), "hello");
    assert.equal(response.contentType, "text/plain");
    assert.deepEqual(response.metadata, { a: "b" });
    assert.equal(await text(await blob.download(1, 3)), "ell");
    assert.deepEqual((await blob.getTags()).tags, { k: "v" });
  },
  async stages_and_commits_in_parallel() {
    const blob = (await fresh()).getBlockBlobClient("large");
    const data = Buffer.alloc(9 * 1024 * 1024, "abc");
    await blob.uploadData(data, { blockSize: 1024 * 1024, concurrency: 4, maxSingleShotSize: 1024 });
    assert.ok((await blob.downloadToBuffer(0, undefined, { blockSize: 1 << 20 })).equals(data));
    const list = await blob.getBlockList("all");
    assert.equal(list.committedBlocks.length, 9);
  },
  async respects_conditions() {
    const blob = (await fresh()).getBlockBlobClient("x");
    const { etag } = await blob.upload("1", 1, { conditions: { ifNoneMatch: "*" } });
    await refused(blob.upload("2", 1, { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
    const second = await blob.upload("2", 1, { conditions: { ifMatch: etag } });
    assert.notEqual(second.etag, etag);
    await refused(blob.upload("3", 1, { conditions: { ifMatch: etag } }), 412, "ConditionNotMet");
  },
  async leases() {
    const blob = (await fresh()).getBlockBlobClient("x");
    await blob.upload("1", 1);
    const lease = blob.getBlobLeaseClient();
    const { leaseId } = await lease.acquireLease(15);
    await refused(blob.upload("2", 1), 412, "LeaseIdMissing");
    await blob.upload("2", 1, { conditions: { leaseId } });
    await refused(blob.getBlobLeaseClient().acquireLease(15), 409, "LeaseAlreadyPresent");
    await lease.changeLease("11111111-2222-3333-4444-555555555555");
    await lease.renewLease();
    assert.equal((await lease.breakLease(0)).leaseTime, 0);
  },
  async lists_by_pages_and_hierarchy() {
    const container = await fresh();
    for (const name of ["a/1", "a/2", "b", "c/1"]) await container.getBlockBlobClient(name).upload("", 0);
    const names = [];
    for await (const page of container.listBlobsFlat().byPage({ maxPageSize: 3 }))
      names.push(page.segment.blobItems.map((item) => item.name));
    assert.deepEqual(names, [["a/1", "a/2", "b"], ["c/1"]]);
    const kinds = [];
    for await (const item of container.listBlobsByHierarchy("/")) kinds.push(`${item.kind} ${item.name}`);
    assert.deepEqual(kinds, ["prefix a/", "prefix c/", "blob b"]);
  },
  async snapshots_and_copies() {
    const container = await fresh();
    const blob = container.getBlockBlobClient("x");
    await blob.upload("old", 3);
    const { snapshot } = await blob.createSnapshot();
    await blob.upload("new", 3);
    assert.equal(await text(await blob.withSnapshot(snapshot).download()), "old");
    const copy = container.getBlockBlobClient("copy");
    const poller = await copy.beginCopyFromURL(blob.withSnapshot(snapshot).url);
    assert.equal((await poller.pollUntilDone()).copyStatus, "success");
    assert.equal(await text(await copy.download()), "old");
    await refused(blob.delete(), 409, "SnapshotsPresent");
    await blob.delete({ deleteSnapshots: "include" });
  },
  async containers_and_policies() {
    const container = await fresh();
    const properties = await container.getProperties();
    assert.equal(properties.leaseState, "available");
    await container.setAccessPolicy("blob", [
      { id: "one", accessPolicy: { permissions: "r", startsOn: new Date(0), expiresOn: new Date(1e13) } },
    ]);
    const policy = await container.getAccessPolicy();
    assert.equal(policy.blobPublicAccess, "blob");
    assert.equal(policy.signedIdentifiers[0].accessPolicy.permissions, "r");
    const found = [];
    for await (const item of service.listContainers({ prefix: container.containerName, includeMetadata: true }))
      found.push(item.metadata);
    assert.deepEqual(found.map((metadata) => metadata.Made ?? metadata.made), ["here"]);
    await container.delete();
    await refused(container.getProperties(), 404, "ContainerNotFound");
  },
  async service_properties() {
    await service.setProperties({ cors: [{ allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 5 }] });
    assert.equal((await service.getProperties()).cors[0].maxAgeInSeconds, 5);
    await service.setProperties({ cors: [] });
    assert.equal((await service.getAccountInfo()).accountKind, "StorageV2");
  },
};

(async () => {
  for (const [name, scenario] of Object.entries(scenarios)) {
    let error = null;
    try {
      await scenario();
    } catch (failure) {
      error = String(failure.stack ?? failure);
    }
    console.log(JSON.stringify({ name, error }));
  }
})();
