// Scenarios of @azure/service-bus: each has a queue or topic of its own.  One JSON line for each,
// with what went wrong, on standard output.
"use strict";
const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const {
  ServiceBusClient,
  ServiceBusAdministrationClient,
  isServiceBusError,
} = require("@azure/service-bus");

const [connectionString, ...chosen] = process.argv.slice(2);
const retryOptions = { maxRetries: 0, timeoutInMs: 8000 };
const administration = new ServiceBusAdministrationClient(connectionString);
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const bodies = (messages) => messages.map((message) => message.body);

async function refused(promise, code) {
  try {
    await promise;
  } catch (error) {
    assert.ok(isServiceBusError(error), String(error));
    assert.equal(error.code, code, error.message);
    return error;
  }
  throw new assert.AssertionError({ message: `not refused with ${code}` });
}

async function newQueue(options) {
  const name = `queue-${randomUUID()}`;
  await administration.createQueue(name, options);
  return name;
}

async function completeAll(receiver, count, seconds = 3) {
  const found = [];
  while (found.length < count) {
    const messages = await receiver.receiveMessages(count - found.length, {
      maxWaitTimeInMs: seconds * 1000,
    });
    if (messages.length === 0) break;
    for (const message of messages) await receiver.completeMessage(message);
    found.push(...messages);
  }
  return found;
}

const scenarios = {
  async sendAndReceive(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    const sent = {
      body: { deep: [1, "two", null] },
      messageId: "id-1",
      correlationId: "correlation",
      contentType: "application/json",
      subject: "subject",
      to: "to",
      replyTo: "reply",
      replyToSessionId: "back",
      partitionKey: "key",
      timeToLive: 60000,
      applicationProperties: { text: "a", number: 5, flag: true, half: 0.5 },
    };
    await sender.sendMessages(sent);
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 5000 });
    for (const name of Object.keys(sent)) assert.deepEqual(message[name], sent[name], name);
    assert.equal(message.deliveryCount, 0);
    assert.equal(message.sequenceNumber.toString(), "1");
    assert.equal(message.enqueuedSequenceNumber, 1);
    assert.equal(message.state, "active");
    assert.ok(Math.abs(message.enqueuedTimeUtc - Date.now()) < 60000);
    const until = message.lockedUntilUtc;
    await wait(20);
    assert.ok((await receiver.renewMessageLock(message)) > until);
    await receiver.completeMessage(message);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 300 }), []);
  },

  async batches(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const batch = await sender.createMessageBatch();
    assert.equal(batch.maxSizeInBytes, 262144);
    for (let n = 0; n < 50; n++) assert.ok(batch.tryAddMessage({ body: `in batch ${n}` }));
    assert.ok(!batch.tryAddMessage({ body: "x".repeat(262144) }));
    await sender.sendMessages(batch);
    await sender.sendMessages([{ body: "listed 1" }, { body: "listed 2" }]);
    const receiver = client.createReceiver(queue);
    const found = await completeAll(receiver, 52);
    const wanted = Array.from({ length: 50 }, (_, n) => `in batch ${n}`);
    assert.deepEqual(bodies(found), [...wanted, "listed 1", "listed 2"]);
    await refused(sender.sendMessages({ body: "x".repeat(300000) }), "MessageSizeExceeded");
    await sender.sendMessages({ body: "after the refusal" });
    assert.deepEqual(bodies(await completeAll(receiver, 1)), ["after the refusal"]);
  },

  // More credit than messages: the SDK drains, and no message is stranded with the old credit.
  async receiveWithDrain(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    for (let round = 0; round < 5; round++) {
      await sender.sendMessages([{ body: `${round}a` }, { body: `${round}b` }]);
      const found = await receiver.receiveMessages(10, { maxWaitTimeInMs: 2000 });
      const rest = await completeAll(receiver, 2 - found.length);
      for (const message of found) await receiver.completeMessage(message);
      assert.deepEqual(bodies([...found, ...rest]), [`${round}a`, `${round}b`]);
      for (const message of found) assert.equal(message.deliveryCount, 0);
    }
    assert.deepEqual(await receiver.receiveMessages(10, { maxWaitTimeInMs: 300 }), []);
    const other = client.createReceiver(queue);
    await sender.sendMessages({ body: "for the other" });
    assert.deepEqual(bodies(await completeAll(other, 1)), ["for the other"]);
  },

  async receiveAndDelete(client) {
    const queue = await newQueue();
    await client.createSender(queue).sendMessages([{ body: 1 }, { body: 2 }]);
    const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    const found = [];
    while (found.length < 2) found.push(...(await receiver.receiveMessages(2 - found.length)));
    assert.deepEqual(bodies(found), [1, 2]);
    assert.deepEqual(await receiver.peekMessages(5), []);
  },

  async settlements(client) {
    const queue = await newQueue({ maxDeliveryCount: 3 });
    await client.createSender(queue).sendMessages({ body: "stubborn" });
    const receiver = client.createReceiver(queue);
    for (let n = 0; n < 3; n++) {
      const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 5000 });
      assert.equal(message.deliveryCount, n);
      if (n > 0) assert.equal(message.applicationProperties.round, n - 1);
      await receiver.abandonMessage(message, { round: n });
    }
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 300 }), []);
    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    const [message] = await completeAll(dead, 1);
    assert.equal(message.deadLetterReason, "MaxDeliveryCountExceeded");
  },

  async deadLetter(client) {
    const queue = await newQueue();
    await client.createSender(queue).sendMessages({ body: "bad", messageId: "kept" });
    const receiver = client.createReceiver(queue);
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 5000 });
    await receiver.deadLetterMessage(message, {
      deadLetterReason: "reason",
      deadLetterErrorDescription: "description",
      more: "property",
    });
    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    const [found] = await completeAll(dead, 1);
    assert.equal(found.messageId, "kept");
    assert.equal(found.deadLetterReason, "reason");
    assert.equal(found.deadLetterErrorDescription, "description");
    assert.equal(found.applicationProperties.more, "property");
    const counts = await administration.getQueueRuntimeProperties(queue);
    assert.equal(counts.totalMessageCount, 0);
  },

  async subscribeWithAProcessor(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    const found = [];
    let abandoned = false;
    const failures = [];
    await new Promise((done, fail) => {
      const late = setTimeout(() => fail(new Error(`only ${found.length}`)), 15000);
      const subscription = receiver.subscribe(
        {
          async processMessage(message) {
            if (message.body === 7 && !abandoned) {
              abandoned = true;
              throw new Error("on purpose");
            }
            found.push(message.body);
            if (found.length === 20) {
              clearTimeout(late);
              setImmediate(() => subscription.close().then(done, fail));
            }
          },
          async processError(about) {
            failures.push(about.error.message);
          },
        },
        { maxConcurrentCalls: 4 },
      );
      sender.sendMessages(Array.from({ length: 20 }, (_, body) => ({ body }))).catch(fail);
    });
    assert.deepEqual(found.toSorted((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n));
    assert.deepEqual(failures, ["on purpose"]);
    assert.deepEqual(await client.createReceiver(queue).peekMessages(5), []);
  },

  async acceptSession(client) {
    const queue = await newQueue({ requiresSession: true });
    const sender = client.createSender(queue);
    for (const body of [1, 2, 3]) await sender.sendMessages({ body, sessionId: "one" });
    const session = await client.acceptSession(queue, "one");
    assert.equal(session.sessionId, "one");
    await refused(client.acceptSession(queue, "one"), "SessionCannotBeLocked");
    assert.equal(await session.getSessionState(), null);
    await session.setSessionState({ step: 4 });
    assert.deepEqual(await session.getSessionState(), { step: 4 });
    const until = session.sessionLockedUntilUtc;
    await wait(20);
    assert.ok((await session.renewSessionLock()) > until);
    const [first] = await session.receiveMessages(1, { maxWaitTimeInMs: 3000 });
    await session.abandonMessage(first);
    assert.deepEqual(bodies(await completeAll(session, 3)), [1, 2, 3]);
    await session.close();
    const again = await client.acceptSession(queue, "one");
    assert.deepEqual(await again.getSessionState(), { step: 4 });
    await again.setSessionState(null);
    assert.equal(await again.getSessionState(), null);
    await again.close();
  },

  async acceptNextSession(client) {
    const queue = await newQueue({ requiresSession: true });
    const sender = client.createSender(queue);
    for (const sessionId of ["a", "b"]) await sender.sendMessages({ body: sessionId, sessionId });
    const held = [await client.acceptNextSession(queue), await client.acceptNextSession(queue)];
    assert.deepEqual(held.map((session) => session.sessionId), ["a", "b"]);
    for (const session of held) {
      assert.deepEqual(bodies(await completeAll(session, 1)), [session.sessionId]);
    }
    const waiting = client.acceptNextSession(queue);
    await wait(100);
    await sender.sendMessages({ body: "late", sessionId: "c" });
    const third = await waiting;
    assert.equal(third.sessionId, "c");
    for (const session of [...held, third]) await session.close();
    await assert.rejects(sender.sendMessages({ body: "without" }), /session/i);
  },

  async peek(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    assert.deepEqual(await receiver.peekMessages(3), []);
    await sender.sendMessages([1, 2, 3, 4, 5].map((body) => ({ body })));
    const [locked] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 3000 });
    assert.deepEqual(bodies(await receiver.peekMessages(3)), [1, 2, 3]);
    assert.deepEqual(bodies(await receiver.peekMessages(3)), [4, 5]);
    const from = locked.sequenceNumber.add(2);
    const options = { fromSequenceNumber: from };
    assert.deepEqual(bodies(await receiver.peekMessages(9, options)), [3, 4, 5]);
    await receiver.completeMessage(locked);
  },

  async deferred(client) {
    const queue = await newQueue();
    await client.createSender(queue).sendMessages([{ body: "now" }, { body: "later" }]);
    const receiver = client.createReceiver(queue);
    const [first] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 3000 });
    await receiver.deferMessage(first, { why: "because" });
    assert.deepEqual(bodies(await completeAll(receiver, 1)), ["later"]);
    const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: first.sequenceNumber });
    assert.equal(peeked.state, "deferred");
    const [found] = await receiver.receiveDeferredMessages(first.sequenceNumber);
    assert.equal(found.body, "now");
    assert.equal(found.applicationProperties.why, "because");
    await receiver.completeMessage(found);
    await refused(receiver.receiveDeferredMessages(first.sequenceNumber), "MessageNotFound");
  },

  async scheduleAndCancel(client) {
    const queue = await newQueue();
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    const far = new Date(Date.now() + 3600000);
    const [, second] = await sender.scheduleMessages([{ body: "a" }, { body: "b" }], far);
    const peeked = await receiver.peekMessages(5);
    assert.deepEqual(bodies(peeked), ["a", "b"]);
    assert.deepEqual(peeked.map((message) => message.state), ["scheduled", "scheduled"]);
    assert.equal(peeked[0].scheduledEnqueueTimeUtc.getTime(), far.getTime());
    await sender.cancelScheduledMessages(second);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 200 }), []);
    const soon = new Date(Date.now() + 1500);
    await sender.scheduleMessages({ body: "c" }, soon);
    const [found] = await completeAll(receiver, 1, 8);
    assert.equal(found.body, "c");
    assert.ok(found.enqueuedTimeUtc >= soon);
    const { sequenceNumber: fromSequenceNumber } = peeked[0];
    assert.deepEqual(bodies(await receiver.peekMessages(5, { fromSequenceNumber })), ["a"]);
  },

  async ruleManager(client) {
    const topic = `topic-${randomUUID()}`;
    await administration.createTopic(topic);
    await administration.createSubscription(topic, "sub");
    const rules = client.createRuleManager(topic, "sub");
    const listed = () => rules.getRules();
    assert.deepEqual((await listed()).map((rule) => rule.name), ["$Default"]);
    await rules.deleteRule("$Default");
    await rules.createRule("large", { sqlExpression: "amount > 10" }, {
      sqlExpression: "SET sys.Label = 'large'",
    });
    await rules.createRule("same", { subject: "wanted", applicationProperties: { k: "v" } });
    const found = await listed();
    assert.deepEqual(found.map((rule) => rule.name), ["large", "same"]);
    assert.equal(found[0].filter.sqlExpression, "amount > 10");
    assert.equal(found[0].action.sqlExpression, "SET sys.Label = 'large'");
    assert.equal(found[1].filter.subject, "wanted");
    assert.deepEqual(found[1].filter.applicationProperties, { k: "v" });
    const sender = client.createSender(topic);
    await sender.sendMessages([
      { body: "small", applicationProperties: { amount: 5 } },
      { body: "big", applicationProperties: { amount: 50 } },
      { body: "wanted", subject: "wanted", applicationProperties: { k: "v" } },
    ]);
    const receiver = client.createReceiver(topic, "sub");
    const messages = await completeAll(receiver, 2);
    assert.deepEqual(bodies(messages), ["big", "wanted"]);
    assert.equal(messages[0].subject, "large");
  },

  async administration() {
    const queue = await newQueue({ lockDuration: "PT30S", maxDeliveryCount: 4 });
    const described = await administration.getQueue(queue);
    assert.equal(described.lockDuration, "PT30S");
    assert.equal(described.maxDeliveryCount, 4);
    described.maxDeliveryCount = 6;
    described.userMetadata = "<&>";
    const updated = await administration.updateQueue(described);
    assert.equal(updated.maxDeliveryCount, 6);
    assert.equal(updated.userMetadata, "<&>");
    assert.ok(await administration.queueExists(queue));
    const topic = `topic-${randomUUID()}`;
    await administration.createTopic(topic);
    await administration.createSubscription(topic, "sub", {
      defaultRuleOptions: { name: "first", filter: { sqlExpression: "1 = 1" } },
    });
    await administration.createRule(topic, "sub", "second", { correlationId: "c" });
    const names = [];
    for await (const rule of administration.listRules(topic, "sub")) names.push(rule.name);
    assert.deepEqual(names, ["first", "second"]);
    const queues = [];
    for await (const each of administration.listQueues()) queues.push(each.name);
    assert.ok(queues.includes(queue));
    await assert.rejects(administration.createQueue(queue), { statusCode: 409 });
    await administration.deleteQueue(queue);
    assert.equal(await administration.queueExists(queue), false);
    await assert.rejects(administration.getQueue(queue), { code: "MessageEntityNotFoundError" });
    const namespace = await administration.getNamespaceProperties();
    assert.equal(namespace.messagingSku, "Standard");
  },

  async missingEntity(client) {
    const name = `none-${randomUUID()}`;
    await refused(client.createSender(name).sendMessages({ body: 1 }), "MessagingEntityNotFound");
    const receiver = client.createReceiver(name);
    await refused(receiver.receiveMessages(1), "MessagingEntityNotFound");
  },
};

async function run(name) {
  const client = new ServiceBusClient(connectionString, { retryOptions });
  let error = null;
  try {
    await scenarios[name](client);
  } catch (raised) {
    error = String(raised.stack ?? raised);
  }
  await client.close();
  console.log(JSON.stringify({ name, error }));
}

const names = chosen.length ? chosen : Object.keys(scenarios);
Promise.all(names.map(run)).then(() => process.exit(0));
