// Every public method of @azure/storage-blob's clients, named as they are; prints one line each.
const storage = require("@azure/storage-blob");
const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Readable } = require("node:stream");

const given = JSON.parse(process.argv[2]);
const options = { retryOptions: { maxTries: 1 } };
const connect = (text) => storage.BlobServiceClient.fromConnectionString(text, options);
const service = connect(given.plain);
const premium = connect(given.premium);
const worm = connect(given.worm);
const later = () => new Date(Date.now() + 3600_000);
const page = Buffer.alloc(512, "p");
let count = 0;

async function fresh(of = service) {
  const container = of.getContainerClient(`js-${++count}`);
  await container.create();
  return container;
}
const block = async (data = "data", of = service) => {
  const blob = (await fresh(of)).getBlockBlobClient("blob");
  await blob.upload(data, Buffer.byteLength(data));
  return blob;
};
const log = async () => {
  const blob = (await fresh()).getAppendBlobClient("log");
  await blob.create();
  return blob;
};
const disk = async (size = 4096, of = service) => {
  const blob = (await fresh(of)).getPageBlobClient("disk");
  await blob.create(size);
  return blob;
};
async function text(response) {
  const parts = [];
  for await (const part of response.readableStreamBody) parts.push(part);
  return Buffer.concat(parts).toString();
}
const read = async (blob) => text(await blob.download());
const refused = (promise, code) =>
  assert.rejects(promise, (error) => error.code === code || error.details?.errorCode === code);
async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}
const signed = (blob) =>
  blob.generateSasUrl({ permissions: storage.BlobSASPermissions.parse("r"), expiresOn: later() });
async function delegated() {
  const credential = {
    getToken: async () => ({ token: given.token, expiresOnTimestamp: Date.now() + 3600_000 }),
  };
  const client = new storage.BlobServiceClient(service.url, credential, options);
  return client.getUserDelegationKey(new Date(Date.now() - 60_000), later());
}
// What the client calls a count is one less than that.
const range = (found) => (found.pageRange ?? []).map((each) => [each.offset, each.count + 1]);

const clients = {
  BlobServiceClient: {
    async getContainerClient() {
      assert.equal(await service.getContainerClient("none").exists(), false);
    },
    async createContainer() {
      const { containerClient } = await service.createContainer(`js-${++count}`, {
        metadata: { a: "1" }, access: "blob",
      });
      const found = await containerClient.getProperties();
      assert.deepEqual([found.metadata, found.blobPublicAccess], [{ a: "1" }, "blob"]);
    },
    async deleteContainer() {
      const { containerName } = await fresh();
      await service.deleteContainer(containerName);
      await refused(service.deleteContainer(containerName), "ContainerNotFound");
    },
    async undeleteContainer() {
      const container = await fresh();
      await container.uploadBlockBlob("kept", "data", 4);
      await container.delete();
      const deleted = (await all(service.listContainers({ includeDeleted: true })))
        .find((each) => each.name === container.containerName && each.deleted);
      const { containerClient } = await service.undeleteContainer(deleted.name, deleted.version);
      assert.equal((await all(containerClient.listBlobsFlat())).length, 1);
    },
    async getProperties() {
      assert.equal((await service.getProperties()).deleteRetentionPolicy.enabled, true);
    },
    async setProperties() {
      const off = { version: "1.0", enabled: false, retentionPolicy: { enabled: false } };
      await service.setProperties({
        blobAnalyticsLogging: { version: "1.0", deleteProperty: true, read: true, write: false,
          retentionPolicy: { enabled: true, days: 2 } },
        hourMetrics: off, minuteMetrics: off, defaultServiceVersion: "2021-12-02",
        cors: [{ allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "x-ms-*",
          exposedHeaders: "", maxAgeInSeconds: 9 }],
        deleteRetentionPolicy: { enabled: true, days: 3 },
        staticWebsite: { enabled: true, indexDocument: "index.html" },
      });
      const found = await service.getProperties();
      assert.equal(found.cors[0].allowedHeaders, "x-ms-*");
      assert.equal(found.staticWebsite.indexDocument, "index.html");
      assert.equal(found.blobAnalyticsLogging.retentionPolicy.days, 2);
      await service.setProperties({ cors: [], staticWebsite: { enabled: false } });
    },
    async getStatistics() {
      // The client asks the host that it knows; a secondary is one with another name.
      const url = new URL(service.url);
      url.pathname = url.pathname.replace(/\/?$/, "-secondary");
      const secondary = new storage.BlobServiceClient(
        `${url.origin}${url.pathname}?${given.sas}`, undefined, options);
      assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
    },
    async getAccountInfo() {
      assert.equal((await service.getAccountInfo()).skuName, "Standard_LRS");
    },
    async findBlobsByTags() {
      const blob = await block();
      await blob.setTags({ wanted: "here", n: "1" });
      const pages = await all(
        service.findBlobsByTags("wanted = 'here'").byPage({ maxPageSize: 1 }));
      assert.deepEqual(pages.map((each) => each.blobs.map((found) => found.tags)),
        [[{ wanted: "here" }]]);
    },
    async listContainers() {
      const container = await fresh();
      await container.setMetadata({ a: "1" });
      const found = await all(service.listContainers({
        prefix: container.containerName, includeMetadata: true, includeSystem: true,
      }));
      assert.deepEqual(found.filter((each) => each.name === container.containerName)
        .map((each) => each.metadata), [{ a: "1" }]);
      const pages = await all(service.listContainers().byPage({ maxPageSize: 1 }));
      assert.ok(pages.length > 1);
    },
    async getUserDelegationKey() {
      assert.equal((await delegated()).signedService, "b");
    },
    async getBlobBatchClient() {
      const blob = await block();
      const answer = await service.getBlobBatchClient().deleteBlobs([blob]);
      assert.equal(answer.subResponsesSucceededCount, 1);
    },
    async generateAccountSasUrl() {
      const url = service.generateAccountSasUrl(later(), storage.AccountSASPermissions.parse("rl"), "sco");
      assert.ok((await all(new storage.BlobServiceClient(url).listContainers())).length > 0);
    },
    async generateSasStringToSign() {
      assert.match(service.generateSasStringToSign(later()), /^js|^t/);
    },
  },
  ContainerClient: {
    async create() {
      await refused((await fresh()).create(), "ContainerAlreadyExists");
    },
    async createIfNotExists() {
      assert.equal((await (await fresh()).createIfNotExists()).succeeded, false);
    },
    async exists() {
      assert.equal(await (await fresh()).exists(), true);
    },
    async getBlobClient() {
      const blob = await block();
      const container = service.getContainerClient(blob.containerName);
      assert.equal(await read(container.getBlobClient("blob")), "data");
    },
    async getAppendBlobClient() {
      assert.equal((await (await log()).getProperties()).blobType, "AppendBlob");
    },
    async getBlockBlobClient() {
      assert.equal((await (await block()).getProperties()).blobType, "BlockBlob");
    },
    async getPageBlobClient() {
      assert.equal((await (await disk()).getProperties()).blobType, "PageBlob");
    },
    async getProperties() {
      const found = await (await fresh()).getProperties();
      assert.deepEqual([found.leaseState, found.hasLegalHold], ["available", false]);
    },
    async delete() {
      const container = await fresh();
      const lease = container.getBlobLeaseClient();
      await lease.acquireLease(15);
      await refused(container.delete(), "LeaseIdMissing");
      await container.delete({ conditions: { leaseId: lease.leaseId } });
    },
    async deleteIfExists() {
      assert.equal((await service.getContainerClient("none").deleteIfExists()).succeeded, false);
      assert.equal((await (await fresh()).deleteIfExists()).succeeded, true);
    },
    async setMetadata() {
      const container = await fresh();
      await container.setMetadata({ a: "1" });
      assert.deepEqual((await container.getProperties()).metadata, { a: "1" });
    },
    async getAccessPolicy() {
      assert.deepEqual((await (await fresh()).getAccessPolicy()).signedIdentifiers, []);
    },
    async setAccessPolicy() {
      const container = await fresh();
      await container.setAccessPolicy("container", [
        { id: "one", accessPolicy: { permissions: "rl", startsOn: new Date(0), expiresOn: later() } },
      ]);
      const found = await container.getAccessPolicy();
      assert.equal(found.blobPublicAccess, "container");
      assert.equal(found.signedIdentifiers[0].accessPolicy.permissions, "rl");
    },
    async getBlobLeaseClient() {
      const lease = (await fresh()).getBlobLeaseClient();
      await lease.acquireLease(-1);
      await lease.releaseLease();
    },
    async uploadBlockBlob() {
      const { blockBlobClient } = await (await fresh()).uploadBlockBlob("a", "data", 4);
      assert.equal(await read(blockBlobClient), "data");
    },
    async deleteBlob() {
      const blob = await block();
      await service.getContainerClient(blob.containerName).deleteBlob("blob");
      assert.equal(await blob.exists(), false);
    },
    async listBlobsFlat() {
      const container = await fresh();
      for (const name of ["a/1", "a/2", "b"])
        await container.getBlockBlobClient(name).upload("x", 1, { metadata: { n: "1" }, tags: { t: "1" } });
      await container.getBlobClient("b").createSnapshot();
      await container.getBlockBlobClient("staged").stageBlock("MDAwMQ==", "x", 1);
      const found = await all(container.listBlobsFlat({
        includeSnapshots: true, includeMetadata: true, includeTags: true, includeUncommitedBlobs: true,
        includeCopy: true, includeDeleted: true, includeDeletedWithVersions: true,
        includeLegalHold: true, includeImmutabilityPolicy: true,
      }));
      assert.deepEqual(found.map((each) => each.name), ["a/1", "a/2", "b", "b", "staged"]);
      assert.deepEqual([found[0].metadata, found[0].tags], [{ n: "1" }, { t: "1" }]);
      assert.ok(found[2].snapshot);
      const pages = await all(container.listBlobsFlat({ prefix: "a/" }).byPage({ maxPageSize: 1 }));
      assert.deepEqual(pages.map((each) => each.segment.blobItems.map((item) => item.name)),
        [["a/1"], ["a/2"]]);
    },
    async listBlobsByHierarchy() {
      const container = await fresh();
      for (const name of ["a/1", "b", "c/2"]) await container.uploadBlockBlob(name, "", 0);
      const found = await all(container.listBlobsByHierarchy("/"));
      assert.deepEqual(found.map((each) => `${each.kind} ${each.name}`).sort(),
        ["blob b", "prefix a/", "prefix c/"]);
    },
    async findBlobsByTags() {
      const blob = await block();
      await blob.setTags({ k: "v" });
      const container = service.getContainerClient(blob.containerName);
      assert.deepEqual((await all(container.findBlobsByTags("k = 'v'"))).map((each) => each.name), ["blob"]);
    },
    async getAccountInfo() {
      assert.equal((await (await fresh()).getAccountInfo()).accountKind, "StorageV2");
    },
    async generateSasUrl() {
      const blob = await block();
      const url = await service.getContainerClient(blob.containerName).generateSasUrl({
        permissions: storage.ContainerSASPermissions.parse("rl"), expiresOn: later(),
      });
      assert.equal((await all(new storage.ContainerClient(url).listBlobsFlat())).length, 1);
    },
    async generateSasStringToSign() {
      const found = (await fresh()).generateSasStringToSign({
        permissions: storage.ContainerSASPermissions.parse("r"), expiresOn: later(),
      });
      assert.match(found, /^r\n/);
    },
    async generateUserDelegationSasUrl() {
      const blob = await block();
      const url = await service.getContainerClient(blob.containerName).generateUserDelegationSasUrl(
        { permissions: storage.ContainerSASPermissions.parse("rl"), expiresOn: later() },
        await delegated());
      assert.equal((await all(new storage.ContainerClient(url).listBlobsFlat())).length, 1);
    },
    async generateUserDelegationSasStringToSign() {
      const found = (await fresh()).generateUserDelegationSasStringToSign(
        { permissions: storage.ContainerSASPermissions.parse("r"), expiresOn: later() },
        await delegated());
      assert.match(found, /^r\n/);
    },
    async getBlobBatchClient() {
      const container = await fresh();
      const names = ["a", "b", "c"];
      for (const name of names) await container.uploadBlockBlob(name, "x", 1);
      const blobs = names.map((name) => container.getBlobClient(name));
      const answer = await container.getBlobBatchClient().deleteBlobs(blobs);
      assert.equal(answer.subResponsesSucceededCount, 3);
    },
  },
  BlobClient: {
    async withSnapshot() {
      const blob = await block("old");
      const { snapshot } = await blob.createSnapshot();
      await blob.upload("new", 3);
      assert.equal(await read(blob.withSnapshot(snapshot)), "old");
    },
    async withVersion() {
      const blob = await block("old", worm);
      const { versionId } = await blob.getProperties();
      await blob.upload("new", 3);
      assert.equal(await read(blob.withVersion(versionId)), "old");
    },
    async getAppendBlobClient() {
      await (await log()).getAppendBlobClient().appendBlock("x", 1);
    },
    async getBlockBlobClient() {
      await (await block()).getBlockBlobClient().upload("x", 1);
    },
    async getPageBlobClient() {
      await (await disk()).getPageBlobClient().uploadPages(page, 0, 512);
    },
    async download() {
      const blob = await block("0123456789");
      assert.equal(await text(await blob.download(2, 3, { rangeGetContentMD5: true })), "234");
      await refused(blob.download(0, 1, { conditions: { ifMatch: '"0x1"' } }), "ConditionNotMet");
    },
    async exists() {
      assert.equal(await (await block()).exists(), true);
      assert.equal(await (await fresh()).getBlobClient("none").exists(), false);
    },
    async getProperties() {
      const found = await (await block()).getProperties();
      assert.deepEqual([found.contentLength, found.accessTier], [4, "Hot"]);
      assert.deepEqual(Buffer.from(found.contentMD5),
        crypto.createHash("md5").update("data").digest());
    },
    async delete() {
      const blob = await block();
      await blob.createSnapshot();
      await refused(blob.delete(), "SnapshotsPresent");
      await blob.delete({ deleteSnapshots: "include" });
    },
    async deleteIfExists() {
      const blob = await block();
      assert.equal((await blob.deleteIfExists()).succeeded, true);
      assert.equal((await blob.deleteIfExists()).succeeded, false);
    },
    async undelete() {
      const blob = await block();
      await blob.delete();
      await blob.undelete();
      assert.equal(await read(blob), "data");
    },
    async setHTTPHeaders() {
      const blob = await block();
      await blob.setHTTPHeaders({ blobContentType: "text/x", blobCacheControl: "no-cache" });
      const found = await blob.getProperties();
      assert.deepEqual([found.contentType, found.cacheControl], ["text/x", "no-cache"]);
    },
    async setMetadata() {
      const blob = await block();
      await blob.setMetadata({ Up: "1" });
      assert.deepEqual((await blob.getProperties()).metadata, { up: "1" });
    },
    async setTags() {
      const blob = await block();
      await blob.setTags({ a: "1" });
      await refused(blob.setTags({}, { conditions: { tagConditions: "a='2'" } }), "ConditionNotMet");
    },
    async getTags() {
      const blob = await block();
      await blob.setTags({ a: "1", b: "x y" });
      assert.deepEqual((await blob.getTags()).tags, { a: "1", b: "x y" });
    },
    async getBlobLeaseClient() {
      const blob = await block();
      await blob.getBlobLeaseClient().acquireLease(15);
      await refused(blob.upload("x", 1), "LeaseIdMissing");
    },
    async createSnapshot() {
      const blob = await block();
      const { snapshot } = await blob.createSnapshot({ metadata: { taken: "1" } });
      assert.deepEqual((await blob.withSnapshot(snapshot).getProperties()).metadata, { taken: "1" });
    },
    async beginCopyFromURL() {
      const blob = await block();
      const copy = (await fresh()).getBlobClient("copy");
      const poller = await copy.beginCopyFromURL(blob.url);
      assert.equal((await poller.pollUntilDone()).copyStatus, "success");
      assert.equal(await read(copy), "data");
    },
    async abortCopyFromURL() {
      const copy = (await fresh()).getBlobClient("copy");
      const poller = await copy.beginCopyFromURL(given.elsewhere);
      const { copyId } = await copy.getProperties();
      await copy.abortCopyFromURL(copyId);
      assert.equal((await copy.getProperties()).copyStatus, "aborted");
      poller.stopPolling();
      await refused(copy.abortCopyFromURL(copyId), "NoPendingCopyOperation");
    },
    async syncCopyFromURL() {
      const copy = (await fresh()).getBlobClient("copy");
      const found = await copy.syncCopyFromURL(await signed(await block()), { tags: { a: "1" } });
      assert.equal(found.copyStatus, "success");
      assert.deepEqual((await copy.getTags()).tags, { a: "1" });
    },
    async setAccessTier() {
      const blob = await block();
      await blob.setAccessTier("Archive");
      await refused(blob.download(), "BlobArchived");
      await blob.setAccessTier("Hot", { rehydratePriority: "High" });
      assert.equal((await blob.getProperties()).archiveStatus, "rehydrate-pending-to-hot");
    },
    async downloadToBuffer() {
      const data = crypto.randomBytes(3_000_000);
      const blob = await block("");
      await blob.uploadData(data);
      const found = await blob.downloadToBuffer(0, undefined, { blockSize: 500_000, concurrency: 4 });
      assert.ok(found.equals(data));
      assert.ok((await blob.downloadToBuffer(1000, 2000)).equals(data.subarray(1000, 3000)));
    },
    async downloadToFile() {
      const file = path.join(os.tmpdir(), `etagere-${process.pid}`);
      try {
        await (await block()).downloadToFile(file);
        assert.equal(fs.readFileSync(file, "utf8"), "data");
      } finally {
        fs.rmSync(file, { force: true });
      }
    },
    async generateSasUrl() {
      assert.equal(await read(new storage.BlobClient(await signed(await block()))), "data");
    },
    async generateSasStringToSign() {
      const found = (await block()).generateSasStringToSign({
        permissions: storage.BlobSASPermissions.parse("r"), expiresOn: later(),
      });
      assert.match(found, /^r\n/);
    },
    async generateUserDelegationSasUrl() {
      const url = await (await block()).generateUserDelegationSasUrl(
        { permissions: storage.BlobSASPermissions.parse("r"), expiresOn: later() }, await delegated());
      const blob = new storage.BlobClient(url);
      assert.equal(await read(blob), "data");
      await refused(blob.delete(), "AuthorizationPermissionMismatch");
    },
    async generateUserDelegationSasStringToSign() {
      const found = (await block()).generateUserDelegationSasStringToSign(
        { permissions: storage.BlobSASPermissions.parse("r"), expiresOn: later() }, await delegated());
      assert.match(found, /^r\n/);
    },
    async setImmutabilityPolicy() {
      const blob = await block("data", worm);
      await blob.setImmutabilityPolicy({ expiriesOn: later(), policyMode: "Unlocked" });
      await refused(blob.upload("x", 1), "BlobImmutableDueToPolicy");
      await blob.deleteImmutabilityPolicy();
    },
    async deleteImmutabilityPolicy() {
      const blob = await block("data", worm);
      await blob.setImmutabilityPolicy({ expiriesOn: later(), policyMode: "Unlocked" });
      await blob.deleteImmutabilityPolicy();
      await blob.delete();
    },
    async setLegalHold() {
      const blob = await block("data", worm);
      assert.equal((await blob.setLegalHold(true)).legalHold, true);
      await refused(blob.delete(), "BlobImmutableDueToLegalHold");
      await blob.setLegalHold(false);
    },
    async getAccountInfo() {
      assert.equal((await (await block()).getAccountInfo()).accountKind, "StorageV2");
    },
  },
  BlockBlobClient: {
    async withSnapshot() {
      const blob = await block();
      await blob.uploadData(Buffer.alloc(10), { blockSize: 5, maxSingleShotSize: 1 });
      const { snapshot } = await blob.createSnapshot();
      await blob.upload("x", 1);
      const list = await blob.withSnapshot(snapshot).getBlockList("committed");
      assert.equal(list.committedBlocks.length, 2);
    },
    async query() {
      const blob = await block("name,age\nAnn,31\nBob,7\n");
      const form = { kind: "csv", hasHeaders: true, columnSeparator: ",", recordSeparator: "\n" };
      const answer = await blob.query("SELECT name FROM BlobStorage WHERE age > 30", {
        inputTextConfiguration: form, outputTextConfiguration: { ...form, hasHeaders: false },
      });
      assert.equal(await text(answer), "Ann\n");
    },
    async upload() {
      const blob = await block();
      await refused(blob.upload("x", 1, { conditions: { ifNoneMatch: "*" } }), "BlobAlreadyExists");
      await blob.upload("x", 1, { metadata: { a: "1" }, tags: { t: "1" }, tier: "Cool" });
      assert.equal((await blob.getProperties()).accessTier, "Cool");
    },
    async syncUploadFromURL() {
      const copy = (await fresh()).getBlockBlobClient("copy");
      await copy.syncUploadFromURL(await signed(await block()));
      assert.equal(await read(copy), "data");
    },
    async stageBlock() {
      const blob = (await fresh()).getBlockBlobClient("blob");
      await blob.stageBlock("MDAwMQ==", "data", 4, {
        transactionalContentMD5: crypto.createHash("md5").update("data").digest(),
      });
      await refused(blob.stageBlock("MDAwMQ==", "data", 4, {
        transactionalContentMD5: crypto.createHash("md5").update("other").digest(),
      }), "Md5Mismatch");
    },
    async stageBlockFromURL() {
      const blob = (await fresh()).getBlockBlobClient("blob");
      await blob.stageBlockFromURL("MDAwMQ==", await signed(await block("0123456789")), 2, 3);
      await blob.commitBlockList(["MDAwMQ=="]);
      assert.equal(await read(blob), "234");
    },
    async commitBlockList() {
      const blob = (await fresh()).getBlockBlobClient("blob");
      await blob.stageBlock("MDAwMQ==", "a", 1);
      await blob.stageBlock("MDAwMg==", "b", 1);
      await blob.commitBlockList(["MDAwMg==", "MDAwMQ==", "MDAwMg=="]);
      assert.equal(await read(blob), "bab");
      await refused(blob.commitBlockList(["MDAwOQ=="]), "InvalidBlockList");
    },
    async getBlockList() {
      const blob = (await fresh()).getBlockBlobClient("blob");
      await blob.stageBlock("MDAwMQ==", "a", 1);
      const found = await blob.getBlockList("all");
      assert.deepEqual(found.uncommittedBlocks.map((each) => [each.name, each.size]), [["MDAwMQ==", 1]]);
    },
    async uploadData() {
      const blob = await block();
      const data = crypto.randomBytes(2_000_000);
      const seen = [];
      await blob.uploadData(data, {
        blockSize: 300_000, concurrency: 4, maxSingleShotSize: 1,
        onProgress: ({ loadedBytes }) => seen.push(loadedBytes),
      });
      assert.ok((await blob.downloadToBuffer()).equals(data));
      assert.equal(Math.max(...seen), data.length);
    },
    async uploadFile() {
      const file = path.join(os.tmpdir(), `etagere-up-${process.pid}`);
      const data = crypto.randomBytes(1_000_000);
      fs.writeFileSync(file, data);
      try {
        const blob = await block();
        await blob.uploadFile(file, { blockSize: 300_000, maxSingleShotSize: 1 });
        assert.ok((await blob.downloadToBuffer()).equals(data));
      } finally {
        fs.rmSync(file, { force: true });
      }
    },
    async uploadStream() {
      const blob = await block();
      const data = crypto.randomBytes(1_000_000);
      await blob.uploadStream(Readable.from([data.subarray(0, 5), data.subarray(5)]), 200_000, 3);
      assert.ok((await blob.downloadToBuffer()).equals(data));
    },
  },
  AppendBlobClient: {
    async withSnapshot() {
      const blob = await log();
      await blob.appendBlock("one", 3);
      const { snapshot } = await blob.createSnapshot();
      await blob.appendBlock("two", 3);
      assert.equal(await read(blob.withSnapshot(snapshot)), "one");
    },
    async create() {
      const blob = await log();
      await refused(blob.create({ conditions: { ifNoneMatch: "*" } }), "BlobAlreadyExists");
    },
    async createIfNotExists() {
      assert.equal((await (await log()).createIfNotExists()).succeeded, false);
    },
    async seal() {
      const blob = await log();
      assert.equal((await blob.seal()).isSealed, true);
      await refused(blob.appendBlock("x", 1), "BlobIsSealed");
    },
    async appendBlock() {
      const blob = await log();
      await blob.appendBlock("one", 3);
      const found = await blob.appendBlock("two", 3, { conditions: { appendPosition: 3 } });
      assert.deepEqual([found.blobAppendOffset, found.blobCommittedBlockCount], ["3", 2]);
      await refused(blob.appendBlock("x", 1, { conditions: { maxSize: 6 } }), "MaxBlobSizeConditionNotMet");
    },
    async appendBlockFromURL() {
      const blob = await log();
      await blob.appendBlockFromURL(await signed(await block("0123456789")), 4, 2);
      assert.equal(await read(blob), "45");
    },
  },
  PageBlobClient: {
    async withSnapshot() {
      const blob = await disk();
      const { snapshot } = await blob.createSnapshot();
      await blob.uploadPages(page, 0, 512);
      assert.deepEqual(range(await blob.withSnapshot(snapshot).getPageRanges()), []);
    },
    async create() {
      const blob = (await fresh()).getPageBlobClient("disk");
      await blob.create(1024, { blobSequenceNumber: 5 });
      assert.equal((await blob.getProperties()).blobSequenceNumber, 5);
    },
    async createIfNotExists() {
      assert.equal((await (await disk()).createIfNotExists(512)).succeeded, false);
    },
    async uploadPages() {
      const blob = await disk();
      await blob.uploadPages(page, 512, 512);
      assert.equal((await read(blob)).slice(512, 1024), "p".repeat(512));
      await refused(blob.uploadPages(page, 0, 512, { conditions: { ifSequenceNumberLessThan: 0 } }),
        "SequenceNumberConditionNotMet");
    },
    async uploadPagesFromURL() {
      const blob = await disk();
      await blob.uploadPagesFromURL(await signed(await block("s".repeat(1024))), 512, 0, 512);
      assert.deepEqual(range(await blob.getPageRanges()), [[0, 512]]);
    },
    async clearPages() {
      const blob = await disk();
      await blob.uploadPages(Buffer.concat([page, page]), 0, 1024);
      await blob.clearPages(0, 512);
      assert.deepEqual(range(await blob.getPageRanges()), [[512, 512]]);
    },
    async getPageRanges() {
      const blob = await disk();
      await blob.uploadPages(page, 1024, 512);
      assert.deepEqual(range(await blob.getPageRanges(0, 4096)), [[1024, 512]]);
    },
    async listPageRanges() {
      const blob = await disk();
      for (const at of [0, 1024, 2048]) await blob.uploadPages(page, at, 512);
      const found = await all(blob.listPageRanges());
      assert.deepEqual(found.map((each) => each.start), [0, 1024, 2048]);
      const pages = await all(blob.listPageRanges().byPage({ maxPageSize: 2 }));
      assert.equal(pages.length, 2);
    },
    async getPageRangesDiff() {
      const blob = await disk();
      const { snapshot } = await blob.createSnapshot();
      await blob.uploadPages(page, 512, 512);
      assert.deepEqual(range(await blob.getPageRangesDiff(0, 4096, snapshot)), [[512, 512]]);
    },
    async listPageRangesDiff() {
      const blob = await disk();
      await blob.uploadPages(page, 0, 512);
      const { snapshot } = await blob.createSnapshot();
      await blob.clearPages(0, 512);
      await blob.uploadPages(page, 1024, 512);
      const found = await all(blob.listPageRangesDiff(0, 4096, snapshot));
      assert.deepEqual(found.map((each) => [each.start, each.isClear]).sort(),
        [[0, true], [1024, false]]);
    },
    async getPageRangesDiffForManagedDisks() {
      const blob = await disk();
      const { snapshot } = await blob.createSnapshot();
      await blob.uploadPages(page, 512, 512);
      const url = blob.withSnapshot(snapshot).url;
      assert.deepEqual(range(await blob.getPageRangesDiffForManagedDisks(0, 4096, url)), [[512, 512]]);
    },
    async resize() {
      const blob = await disk();
      await blob.resize(8192);
      assert.equal((await blob.getProperties()).contentLength, 8192);
    },
    async updateSequenceNumber() {
      const blob = await disk();
      await blob.updateSequenceNumber("update", 7);
      assert.equal((await blob.updateSequenceNumber("increment")).blobSequenceNumber, 8);
    },
    async startCopyIncremental() {
      const blob = await disk();
      const { snapshot } = await blob.createSnapshot();
      const follower = (await fresh()).getPageBlobClient("follower");
      await follower.startCopyIncremental(blob.withSnapshot(snapshot).url);
      assert.equal((await follower.getProperties()).isIncrementalCopy, true);
    },
  },
  BlobLeaseClient: {
    async acquireLease() {
      const lease = (await block()).getBlobLeaseClient("11111111-1111-1111-1111-111111111111");
      assert.equal((await lease.acquireLease(-1)).leaseId, "11111111-1111-1111-1111-111111111111");
    },
    async changeLease() {
      const lease = (await block()).getBlobLeaseClient();
      await lease.acquireLease(15);
      await lease.changeLease("22222222-2222-2222-2222-222222222222");
      assert.equal(lease.leaseId, "22222222-2222-2222-2222-222222222222");
    },
    async releaseLease() {
      const blob = await block();
      const lease = blob.getBlobLeaseClient();
      await lease.acquireLease(15);
      await lease.releaseLease();
      await blob.upload("x", 1);
    },
    async renewLease() {
      const lease = (await fresh()).getBlobLeaseClient();
      await lease.acquireLease(15);
      assert.equal((await lease.renewLease()).leaseId, lease.leaseId);
    },
    async breakLease() {
      const lease = (await block()).getBlobLeaseClient();
      await lease.acquireLease(60);
      assert.ok((await lease.breakLease(20)).leaseTime >= 19);
      assert.equal((await lease.breakLease(0)).leaseTime, 0);
    },
  },
  BlobBatchClient: {
    async createBatch() {
      assert.equal(service.getBlobBatchClient().createBatch().getSubRequests().size, 0);
    },
    async deleteBlobs() {
      const blob = await block();
      const gone = blob.url.replace("/blob", "/gone");
      const answer = await service.getBlobBatchClient().deleteBlobs([blob.url, gone], service.credential);
      assert.deepEqual(answer.subResponses.map((each) => each.status), [202, 404]);
    },
    async setBlobsAccessTier() {
      const blob = await block();
      const client = service.getContainerClient(blob.containerName).getBlobBatchClient();
      const answer = await client.setBlobsAccessTier([blob], "Cool");
      assert.equal(answer.subResponsesSucceededCount, 1);
      assert.equal((await blob.getProperties()).accessTier, "Cool");
    },
    async submitBatch() {
      const blob = await block();
      const client = service.getBlobBatchClient();
      const batch = client.createBatch();
      await batch.setBlobAccessTier(blob, "Cold");
      assert.equal((await client.submitBatch(batch)).subResponsesFailedCount, 0);
      const page = await disk(4096, premium);
      const tiers = premium.getBlobBatchClient().createBatch();
      await tiers.setBlobAccessTier(page, "P20");
      assert.equal((await premium.getBlobBatchClient().submitBatch(tiers)).subResponses[0].status, 200);
    },
  },
  BlobBatch: {
    async getMultiPartContentType() {
      assert.match(new storage.BlobBatch().getMultiPartContentType(), /^multipart\/mixed; boundary=/);
    },
    async getHttpRequestBody() {
      const batch = new storage.BlobBatch();
      await batch.deleteBlob(await block());
      assert.match(batch.getHttpRequestBody(), /DELETE \//);
    },
    async getSubRequests() {
      const batch = new storage.BlobBatch();
      await batch.deleteBlob(await block());
      assert.equal(batch.getSubRequests().size, 1);
    },
    async deleteBlob() {
      const blob = await block();
      const batch = new storage.BlobBatch();
      await batch.deleteBlob(blob, { deleteSnapshots: "include" });
      await service.getBlobBatchClient().submitBatch(batch);
      assert.equal(await blob.exists(), false);
    },
    async setBlobAccessTier() {
      const blob = await block();
      const batch = new storage.BlobBatch();
      await batch.setBlobAccessTier(blob, "Archive");
      await service.getBlobBatchClient().submitBatch(batch);
      assert.equal((await blob.getProperties()).accessTier, "Archive");
    },
  },
};

// What TypeScript declares private or for its own use, and what browsers alone have.
const hidden = new Set(`
  listContainersSegment findBlobsByTagsSegment findBlobsByTagsSegments findBlobsByTagsItems
  listSegments listItems listBlobFlatSegment listBlobFlatSegmentApacheArrow listBlobHierarchySegment
  listBlobHierarchySegmentApacheArrow listHierarchySegments listItemsByHierarchy
  getContainerNameFromUrl getBlobAndContainerNamesFromUrl startCopyFromURL uploadBrowserData
  uploadSeekableInternal listPageRangesSegment listPageRangeItemSegments listPageRangeItems
  listPageRangesDiffSegment listPageRangeDiffItemSegments listPageRangeDiffItems
  addSubRequestInternal setBatchType
`.trim().split(/\s+/));

function methodsOf(name) {
  const prototype = storage[name].prototype;
  return Object.getOwnPropertyNames(prototype).filter((method) => {
    const { value } = Object.getOwnPropertyDescriptor(prototype, method);
    return method !== "constructor" && typeof value === "function" && !hidden.has(method);
  });
}

(async () => {
  await service.setProperties({ deleteRetentionPolicy: { enabled: true, days: 5 } });
  for (const [client, methods] of Object.entries(clients)) {
    const missing = methodsOf(client).filter((method) => !(method in methods));
    const error = missing.length ? `left out: ${missing}` : null;
    console.log(JSON.stringify({ name: `${client} is complete`, error }));
    for (const [method, scenario] of Object.entries(methods)) {
      let failed = null;
      try {
        await scenario();
      } catch (failure) {
        failed = String(failure.stack ?? failure);
      }
      console.log(JSON.stringify({ name: `${client}.${method}`, error: failed }));
    }
  }
})();
