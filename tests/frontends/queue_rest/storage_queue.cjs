// All that @azure/storage-queue can do: node storage_queue.cjs URL HTTPS_URL ACCOUNT KEY
"use strict";
const assert = require("node:assert/strict");
const {
  QueueClient,
  QueueServiceClient,
  StorageSharedKeyCredential,
  AccountSASPermissions,
  QueueSASPermissions,
  generateQueueSASQueryParameters,
} = require("@azure/storage-queue");

const hour = 3600_000;

// Which methods of the clients were called, so that none is left out.
const methods = new Map();
for (const kind of [QueueClient, QueueServiceClient]) {
  for (const [name, { value }] of Object.entries(
    Object.getOwnPropertyDescriptors(kind.prototype),
  )) {
    if (typeof value !== "function" || name === "constructor") continue;
    const full = `${kind.name}.${name}`;
    methods.set(full, false);
    kind.prototype[name] = function (...parameters) {
      methods.set(full, true);
      return value.apply(this, parameters);
    };
  }
}

async function messages(queue) {
  const text = "h\u00e9llo <&> \u{1f600}";
  const sent = await queue.sendMessage(text);
  for (const moment of [sent.insertedOn, sent.expiresOn, sent.nextVisibleOn]) {
    assert.ok(moment instanceof Date && !Number.isNaN(moment.getTime()));
  }
  const { peekedMessageItems } = await queue.peekMessages({ numberOfMessages: 5 });
  assert.deepEqual(
    peekedMessageItems.map((item) => [item.messageText, item.dequeueCount]),
    [[text, 0]],
  );
  const { receivedMessageItems } = await queue.receiveMessages({
    numberOfMessages: 32,
    visibilityTimeout: 600,
  });
  assert.equal(receivedMessageItems.length, 1);
  const [got] = receivedMessageItems;
  assert.deepEqual([got.messageId, got.dequeueCount], [sent.messageId, 1]);
  assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 0);
  const updated = await queue.updateMessage(got.messageId, got.popReceipt, "new", 0);
  assert.notEqual(updated.popReceipt, got.popReceipt);
  const stale = { code: "MessageNotFound", statusCode: 404 };
  await assert.rejects(queue.deleteMessage(got.messageId, got.popReceipt), stale);
  await queue.deleteMessage(got.messageId, updated.popReceipt);
  await assert.rejects(queue.deleteMessage(got.messageId, updated.popReceipt), stale);
  await queue.sendMessage("x", { messageTimeToLive: -1, visibilityTimeout: 100 });
  assert.equal((await queue.getProperties()).approximateMessagesCount, 1);
  await queue.clearMessages();
  assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
}

async function access(queue, url, name, credential) {
  const policy = {
    permissions: "raup",
    startsOn: new Date(Date.now() - hour),
    expiresOn: new Date(Date.now() + hour),
  };
  await queue.setAccessPolicy([{ id: "all", accessPolicy: policy }]);
  const { signedIdentifiers } = await queue.getAccessPolicy();
  assert.deepEqual(signedIdentifiers[0].accessPolicy.expiresOn, policy.expiresOn);
  const sas = generateQueueSASQueryParameters({ queueName: name, identifier: "all" }, credential);
  const holder = new QueueClient(`${url}/${name}?${sas}`);
  await holder.sendMessage("by signature");
  const { receivedMessageItems } = await holder.receiveMessages();
  assert.equal(receivedMessageItems[0].messageText, "by signature");
  await assert.rejects(holder.clearMessages(), { statusCode: 403 });
}

async function signatures(queue, service) {
  const expiresOn = new Date(Date.now() + hour);
  const permissions = QueueSASPermissions.parse("ap");
  assert.match(queue.generateSasStringToSign({ permissions, expiresOn }), /^ap\n/);
  const holder = new QueueClient(await queue.generateSasUrl({ permissions, expiresOn }));
  await holder.sendMessage("by signature");
  assert.equal((await holder.receiveMessages()).receivedMessageItems.length, 1);
  await assert.rejects(holder.peekMessages(), {
    statusCode: 403,
    code: "AuthorizationPermissionMismatch",
  });
  const all = AccountSASPermissions.parse("rwdlacup");
  assert.match(service.generateSasStringToSign(expiresOn, all, "sco"), /rwdlacup\nq\nsco\n/);
  const holders = new QueueServiceClient(service.generateAccountSasUrl(expiresOn, all, "sco"));
  await holders.createQueue("by-signature");
  const names = [];
  for await (const item of holders.listQueues({ prefix: "by-" })) names.push(item.name);
  assert.deepEqual(names, ["by-signature"]);
  await holders.deleteQueue("by-signature");
}

async function delegated(secureUrl, url, name) {
  const token = {
    getToken: async () => ({
      token: "22222222-2222-2222-2222-222222222222",
      expiresOnTimestamp: Date.now() + hour,
    }),
  };
  const service = new QueueServiceClient(secureUrl, token, { retryOptions: { maxTries: 1 } });
  const from = new Date(Date.now() - hour);
  const until = new Date(Date.now() + hour);
  const delegation = await service.getUserDelegationKey(from, until);
  assert.equal(delegation.signedService, "q");
  const queue = service.getQueueClient(name);
  const wanted = { permissions: QueueSASPermissions.parse("ra"), expiresOn: until };
  assert.match(queue.generateUserDelegationStringToSign(wanted, delegation), /^ra\n/);
  const signed = await queue.generateUserDelegationSasUrl(wanted, delegation);
  const holder = new QueueClient(signed.replace(secureUrl, url));
  await holder.sendMessage("by delegation");
  assert.equal((await holder.peekMessages()).peekedMessageItems.length, 1);
  await assert.rejects(holder.receiveMessages(), { statusCode: 403 });
}

async function main() {
  const [url, secureUrl, account, key] = process.argv.slice(2);
  const credential = new StorageSharedKeyCredential(account, key);
  const service = new QueueServiceClient(url, credential, { retryOptions: { maxTries: 1 } });
  const queue = service.getQueueClient("js-tasks");
  assert.equal((await queue.createIfNotExists({ metadata: { a: "1" } })).succeeded, true);
  assert.equal((await queue.createIfNotExists({ metadata: { a: "1" } })).succeeded, false);
  await assert.rejects(queue.create(), { code: "QueueAlreadyExists", statusCode: 409 });
  assert.deepEqual((await queue.getProperties()).metadata, { a: "1" });
  await queue.setMetadata({ b: "2" });
  await messages(queue);
  await access(queue, url, "js-tasks", credential);
  await signatures(queue, service);
  await delegated(secureUrl, url, "js-tasks");

  for (let n = 0; n < 5; n++) await service.createQueue(`page-${n}`, { metadata: { n: `${n}` } });
  const pages = service
    .listQueues({ prefix: "page-", includeMetadata: true })
    .byPage({ maxPageSize: 2 });
  const listed = [];
  for await (const page of pages) listed.push(page.queueItems.map((item) => item.metadata.n));
  assert.deepEqual(listed, [["0", "1"], ["2", "3"], ["4"]]);

  const rule = {
    allowedOrigins: "*",
    allowedMethods: "GET",
    allowedHeaders: "",
    exposedHeaders: "",
    maxAgeInSeconds: 8888,
  };
  await service.setProperties({ cors: [rule] });
  assert.equal((await service.getProperties()).cors[0].maxAgeInSeconds, 8888);

  const connected = QueueServiceClient.fromConnectionString(
    `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};QueueEndpoint=${url};`,
  );
  await connected.deleteQueue("page-0");
  assert.equal(await connected.getQueueClient("page-0").exists(), false);
  assert.equal(await connected.getQueueClient("page-1").exists(), true);
  assert.equal((await connected.getQueueClient("page-1").deleteIfExists()).succeeded, true);
  const secondary = new QueueServiceClient(`${url}-secondary`, credential);
  // The client looks for a root `QueueServiceStats`, which no service sends, and so finds nothing.
  const { _response } = await secondary.getStatistics();
  assert.match(_response.bodyAsText, /<GeoReplication><Status>live<\/Status><LastSyncTime>/);

  await queue.delete();
  assert.equal(await queue.exists(), false);
  assert.equal((await queue.deleteIfExists()).succeeded, false);

  const left = [...methods].filter(([, called]) => !called).map(([name]) => name);
  assert.deepEqual(left, []);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
