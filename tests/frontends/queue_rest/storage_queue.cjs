// What @azure/storage-queue does against the server: node storage_queue.cjs URL ACCOUNT KEY
"use strict";
const assert = require("node:assert/strict");
const {
  QueueClient,
  QueueServiceClient,
  StorageSharedKeyCredential,
  generateQueueSASQueryParameters,
} = require("@azure/storage-queue");

const hour = 3600_000;

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

async function main() {
  const [url, account, key] = process.argv.slice(2);
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

  await queue.delete();
  assert.equal(await queue.exists(), false);
  assert.equal((await queue.deleteIfExists()).succeeded, false);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
