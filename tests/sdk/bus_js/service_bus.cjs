// @azure/service-bus against a bus; its connection string is the argument.
const { ServiceBusClient, delay } = require("@azure/service-bus");
const assert = require("node:assert/strict");

const bodies = (messages) => messages.map((message) => message.body);

async function receive(receiver, count) {
  let messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, {
      maxWaitTimeInMs: 5000,
    });
    assert.notEqual(more.length, 0);
    messages = messages.concat(more);
  }
  return messages;
}

async function queues(client) {
  const sender = client.createSender("q");
  const applicationProperties = { number: 1, truth: true, text: "x" };
  await sender.sendMessages({
    body: { a: 1 },
    messageId: "1",
    applicationProperties,
    timeToLive: 60000,
  });
  const batch = await sender.createMessageBatch();
  assert.equal(batch.maxSizeInBytes, 262144);
  for (let number = 0; number < 10; number++) {
    assert.ok(batch.tryAddMessage({ body: `b${number}` }));
  }
  await sender.sendMessages(batch);

  const receiver = client.createReceiver("q");
  const messages = await receive(receiver, 5);
  assert.deepEqual(bodies(messages), [{ a: 1 }, "b0", "b1", "b2", "b3"]);
  assert.deepEqual(messages[0].applicationProperties, applicationProperties);
  assert.equal(messages[0].timeToLive, 60000);
  assert.equal(messages[0].deliveryCount, 0);
  assert.equal(messages[0].state, "active");
  assert.ok(messages[0].lockedUntilUtc > new Date());
  assert.ok(messages[1].messageId);
  await receiver.completeMessage(messages[0]);
  await receiver.abandonMessage(messages[1], { why: "not now" });
  await receiver.deadLetterMessage(messages[2], {
    deadLetterReason: "r",
    deadLetterErrorDescription: "d",
  });
  await receiver.deferMessage(messages[3]);
  await receiver.renewMessageLock(messages[4]);
  await receiver.completeMessage(messages[4]);

  const [deferred] = await receiver.receiveDeferredMessages(messages[3].sequenceNumber);
  assert.deepEqual([deferred.body, deferred.state], ["b2", "deferred"]);
  await receiver.completeMessage(deferred);
  const dead = client.createReceiver("q", { subQueueType: "deadLetter" });
  const [letter] = await receive(dead, 1);
  assert.deepEqual(
    [letter.body, letter.deadLetterReason, letter.deadLetterErrorDescription],
    ["b1", "r", "d"],
  );
  await dead.completeMessage(letter);
  const peeked = await receiver.peekMessages(20);
  assert.deepEqual(bodies(peeked), ["b0", "b4", "b5", "b6", "b7", "b8", "b9"]);
  assert.equal(peeked[0].deliveryCount, 1);
  assert.equal(peeked[0].applicationProperties.why, "not now");

  const due = new Date(Date.now() + 1000);
  const numbers = await sender.scheduleMessages([{ body: "never" }, { body: "later" }], due);
  await sender.cancelScheduledMessages(numbers[0]);
  const got = [];
  const subscription = receiver.subscribe(
    {
      processMessage: async (message) => {
        got.push(message.body);
      },
      processError: async ({ error }) => {
        throw error;
      },
    },
    { maxConcurrentCalls: 5 },
  );
  while (got.length < 8) await delay(20);
  await subscription.close();
  assert.equal(got.at(-1), "later");
  await receiver.close();

  await sender.sendMessages({ body: "deleted" });
  const deleting = client.createReceiver("q", { receiveMode: "receiveAndDelete" });
  // Wanting more than there is ends with a drain.
  assert.deepEqual(bodies(await deleting.receiveMessages(5, { maxWaitTimeInMs: 500 })), [
    "deleted",
  ]);
  assert.deepEqual(await deleting.peekMessages(1), []);
}

async function sessions(client) {
  await client.createSender("s").sendMessages([
    { body: "s1", sessionId: "A" },
    { body: "s2", sessionId: "A" },
  ]);
  const session = await client.acceptNextSession("s");
  assert.equal(session.sessionId, "A");
  assert.ok(session.sessionLockedUntilUtc > new Date());
  await session.setSessionState({ x: 1 });
  assert.deepEqual(await session.getSessionState(), { x: 1 });
  await session.renewSessionLock();
  const messages = await receive(session, 2);
  assert.deepEqual(bodies(messages), ["s1", "s2"]);
  for (const message of messages) await session.completeMessage(message);
  await assert.rejects(client.acceptSession("s", "A"), { code: "SessionCannotBeLocked" });
  await session.close();
  await (await client.acceptSession("s", "A")).close();
}

async function topics(client) {
  const rules = client.createRuleManager("t", "sub");
  await rules.createRule("sql", { sqlExpression: "a = 1" });
  await rules.createRule("correlation", { subject: "l", applicationProperties: { z: 1 } });
  const found = {};
  for await (const rule of rules.listRules()) found[rule.name] = rule.filter;
  assert.equal(found.$Default.sqlExpression, "1=1");
  assert.equal(found.sql.sqlExpression, "a = 1");
  assert.equal(found.correlation.subject, "l");
  assert.deepEqual(found.correlation.applicationProperties, { z: 1 });
  await rules.deleteRule("sql");
  await client.createSender("t").sendMessages({ body: "topic" });
  assert.deepEqual(bodies(await receive(client.createReceiver("t", "sub"), 1)), ["topic"]);
}

(async () => {
  const client = new ServiceBusClient(process.argv[2]);
  await queues(client);
  await sessions(client);
  await topics(client);
  await assert.rejects(client.createSender("missing").sendMessages({ body: 1 }), {
    code: "MessagingEntityNotFound",
  });
  await client.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
