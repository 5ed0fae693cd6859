// @azure/data-tables against a server whose connection string is the first argument.
// Each scenario has a table of its own; for each, a line of JSON says how it went.
"use strict";
const assert = require("node:assert/strict");
const {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  TableTransaction,
  generateAccountSas,
  generateTableSas,
  odata,
} = require("@azure/data-tables");

const [connectionString, url, account, key] = process.argv.slice(2);
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const service = TableServiceClient.fromConnectionString(connectionString, options);
const credential = new AzureNamedKeyCredential(account, key);

// What was not called is counted by the last scenario.
const uncalled = new Set();
for (const kind of [TableClient, TableServiceClient, TableTransaction]) {
  for (const name of Object.getOwnPropertyNames(kind.prototype)) {
    const method = kind.prototype[name];
    if (name === "constructor" || typeof method !== "function") continue;
    uncalled.add(`${kind.name}.${name}`);
    kind.prototype[name] = function counted(...given) {
      uncalled.delete(`${kind.name}.${name}`);
      return method.apply(this, given);
    };
  }
}

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return { status: error.statusCode, code: error.details?.odataError?.code ?? error.code, error };
  }
  return assert.fail("it was not refused");
}

async function all(iterable) {
  const found = [];
  for await (const each of iterable) found.push(each);
  return found;
}

const entity = (rowKey, values = {}, partitionKey = "p") => ({ partitionKey, rowKey, ...values });

const scenarios = {
  async tables() {
    await service.createTable("NodeMade");
    await service.createTable("NodeMade"); // the SDK takes an existing table for created
    const names = (await all(service.listTables())).map((each) => each.name);
    assert.ok(names.includes("NodeMade"));
    const filter = odata`TableName eq ${"NodeMade"}`;
    const found = await all(service.listTables({ queryOptions: { filter } }));
    assert.deepEqual(found.map((each) => each.name), ["NodeMade"]);
    let token;
    for await (const page of service.listTables().byPage({ maxPageSize: 1 })) {
      assert.equal(page.length, 1);
      token ??= page.continuationToken;
    }
    const rest = [];
    for await (const page of service.listTables().byPage({ maxPageSize: 100, continuationToken: token })) {
      rest.push(...page.map((each) => each.name));
    }
    assert.deepEqual(rest, names.slice(1));
    await service.deleteTable("NodeMade");
    await service.deleteTable("NodeMade");
    assert.equal((await refusal(service.createTable("a-b"))).status, 400);
  },

  async entities(people) {
    const { etag } = await people.createEntity(entity("r", { age: 5, name: "é'" }));
    const found = await people.getEntity("p", "r");
    assert.equal(found.age, 5);
    assert.equal(found.name, "é'");
    assert.equal(found.etag, etag);
    assert.match(found.timestamp, /^\d{4}-.*Z$/);
    const conflict = await refusal(people.createEntity(entity("r")));
    assert.deepEqual([conflict.status, conflict.code], [409, "EntityAlreadyExists"]);
    await people.updateEntity(entity("r", { city: "x" }), "Merge");
    assert.equal((await people.getEntity("p", "r")).age, 5);
    await people.updateEntity(entity("r", { city: "y" }), "Replace");
    assert.equal((await people.getEntity("p", "r")).age, undefined);
    await people.upsertEntity(entity("r", { age: 6 }), "Merge");
    await people.upsertEntity(entity("s", { age: 7 }), "Replace");
    await people.deleteEntity("p", "r");
    const missing = await refusal(people.getEntity("p", "r"));
    assert.deepEqual([missing.status, missing.code], [404, "ResourceNotFound"]);
    assert.equal((await refusal(people.deleteEntity("p", "r"))).status, 404);
  },

  async optimisticConcurrency(people) {
    const { etag } = await people.createEntity(entity("r", { n: 1 }));
    for (const mode of ["Merge", "Replace"]) {
      const current = (await people.getEntity("p", "r")).etag;
      await people.updateEntity(entity("r", { n: 2 }), mode, { etag: current });
      const stale = await refusal(people.updateEntity(entity("r", { n: 3 }), mode, { etag }));
      assert.deepEqual([stale.status, stale.code], [412, "UpdateConditionNotSatisfied"]);
    }
    assert.equal((await refusal(people.deleteEntity("p", "r", { etag }))).status, 412);
    assert.equal((await people.getEntity("p", "r")).n, 2);
    await people.deleteEntity("p", "r", { etag: "*" });
  },

  async types(people) {
    const values = {
      text: "é\u{1F600}\"\\\n",
      empty: "",
      whole: 5,
      fraction: 1.5,
      yes: true,
      date: new Date("2021-06-17T17:32:46.777Z"),
      ticks: { type: "DateTime", value: "2021-06-17T17:32:46.1234567Z" },
      big: 9223372036854775807n,
      small: { type: "Int64", value: "-9223372036854775808" },
      guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
      bytes: new Uint8Array([0, 1, 254, 255]),
      none: null,
      missing: undefined,
    };
    await people.createEntity(entity("r", values));
    // The SDK sends a number without a type: wider than an Int32 it is a Double.
    const now = 1_700_000_000_123;
    await people.createEntity(entity("s", { now, far: -(2 ** 40), huge: 1e20 }));
    const wide = await people.getEntity("p", "s");
    assert.deepEqual([wide.now, wide.far, wide.huge], [now, -(2 ** 40), 1e20]);
    const filter = odata`now gt ${now - 1}`;
    const later = await all(people.listEntities({ queryOptions: { filter } }));
    assert.deepEqual(later.map((each) => each.rowKey), ["s"]);
    // Said to be an Int32, it is taken at its word.
    const typedWrong = { large: { type: "Int32", value: "2147483648" } };
    const large = await refusal(people.createEntity(entity("t", typedWrong)));
    assert.deepEqual([large.status, large.code], [400, "InvalidInput"]);
    const found = await people.getEntity("p", "r", { disableTypeConversion: false });
    assert.equal(found.text, values.text);
    assert.equal(found.empty, "");
    assert.equal(found.whole, 5);
    assert.equal(found.fraction, 1.5);
    assert.equal(found.yes, true);
    assert.equal(found.date.toISOString(), values.date.toISOString());
    assert.equal(found.big, 9223372036854775807n);
    assert.equal(found.small, -9223372036854775808n);
    assert.deepEqual(found.guid, values.guid);
    assert.deepEqual([...found.bytes], [0, 1, 254, 255]);
    assert.ok(!("none" in found) && !("missing" in found));
    const typed = await people.getEntity("p", "r", { disableTypeConversion: true });
    assert.equal(typed.ticks.value, "2021-06-17T17:32:46.1234567Z");
    assert.equal(typed.whole.type, "Int32");
    await people.updateEntity({ ...typed, rowKey: "r", partitionKey: "p" }, "Replace");
    const again = await people.getEntity("p", "r", { disableTypeConversion: true });
    for (const name of Object.keys(values)) assert.deepEqual(again[name], typed[name], name);
  },

  async namedDoubles(people) {
    for (const value of ["NaN", "Infinity", "-Infinity"]) {
      await people.upsertEntity(entity("d", { x: { type: "Double", value } }), "Replace");
      const found = await people.getEntity("p", "d", { disableTypeConversion: true });
      assert.equal(String(found.x.value), value);
    }
  },

  async keys(people) {
    for (const name of ["", " ", "it's", "''", "a b", "é", "%", "%2F", "+", "&=", "\u{1F600}", "a:b"]) {
      await people.createEntity(entity(name, { n: 1 }, name));
      assert.equal((await people.getEntity(name, name)).rowKey, name);
      const filter = odata`PartitionKey eq ${name}`;
      const found = await all(people.listEntities({ queryOptions: { filter } }));
      assert.deepEqual(found.map((each) => each.rowKey), [name]);
      await people.updateEntity(entity(name, { n: 2 }, name), "Merge");
      await people.deleteEntity(name, name);
    }
  },

  async queries(people) {
    for (let n = 0; n < 10; n += 1) {
      await people.createEntity(
        entity(`0${n}`, { n, big: 2n ** 40n + BigInt(n), name: `n'${n}`, even: n % 2 === 0,
          ratio: { type: "Double", value: n + 0.5 },
          date: new Date(Date.UTC(2021, 0, 1 + n)) }, n < 5 ? "a" : "b"));
    }
    const found = async (filter) =>
      (await all(people.listEntities({ queryOptions: { filter } }))).map((each) => each.n);
    assert.deepEqual(await found(undefined), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(await found(odata`PartitionKey eq ${"b"}`), [5, 6, 7, 8, 9]);
    assert.deepEqual(await found(odata`PartitionKey eq ${"a"} and RowKey gt ${"02"}`), [3, 4]);
    assert.deepEqual(await found(odata`n ge ${8}`), [8, 9]);
    assert.deepEqual(await found(odata`big lt ${2n ** 40n + 2n}`), [0, 1]);
    assert.deepEqual(await found(odata`ratio lt ${2}`), [0, 1]);
    assert.deepEqual(await found(odata`name eq ${"n'3"}`), [3]);
    assert.deepEqual(await found(odata`even eq ${true} and n lt ${3}`), [0, 2]);
    assert.deepEqual(await found(odata`date gt ${new Date(Date.UTC(2021, 0, 9))}`), [9]);
    const filter = "n eq 3";
    const [one] = await all(people.listEntities({ queryOptions: { filter, select: ["name"] } }));
    assert.equal(one.name, "n'3");
    assert.equal(one.n, undefined);
    assert.equal((await refusal(found("n eq"))).status, 400);
  },

  async paging(people) {
    for (let n = 0; n < 7; n += 1) await people.createEntity(entity(`${n}`));
    const sizes = [];
    let token;
    for await (const page of people.listEntities().byPage({ maxPageSize: 3 })) {
      sizes.push(page.length);
      token ??= page.continuationToken;
    }
    assert.deepEqual(sizes, [3, 3, 1]);
    const rest = [];
    for await (const page of people.listEntities().byPage({ maxPageSize: 3, continuationToken: token })) {
      rest.push(...page.map((each) => each.rowKey));
    }
    assert.deepEqual(rest, ["3", "4", "5", "6"]);
  },

  async transactions(people) {
    for (const name of ["merged", "replaced", "deleted"]) {
      await people.createEntity(entity(name, { a: 1 }));
    }
    const transaction = new TableTransaction();
    transaction.createEntity(entity("created", { n: 1 }));
    transaction.upsertEntity(entity("upserted", { n: 1 }), "Merge");
    transaction.updateEntity(entity("merged", { n: 1 }), "Merge");
    transaction.updateEntity(entity("replaced", { n: 1 }), "Replace");
    transaction.deleteEntity("p", "deleted");
    const result = await people.submitTransaction(transaction.actions);
    assert.equal(result.status, 202);
    assert.deepEqual(result.subResponses.map((each) => each.status), [204, 204, 204, 204, 204]);
    assert.equal(result.getResponseForEntity("created").etag, (await people.getEntity("p", "created")).etag);
    const found = await all(people.listEntities());
    assert.deepEqual(found.map((each) => each.rowKey), ["created", "merged", "replaced", "upserted"]);
    assert.equal(found[1].a, 1);
    assert.equal(found[2].a, undefined);
  },

  async failedTransactions(people) {
    const { etag } = await people.createEntity(entity("old", { n: 1 }));
    const conflict = await refusal(people.submitTransaction([
      ["create", entity("a")], ["create", entity("old")],
    ]));
    assert.equal(conflict.status, 409);
    assert.equal(conflict.code, "EntityAlreadyExists");
    assert.match(conflict.error.message, /^1:/);
    await people.updateEntity(entity("old", { n: 2 }), "Merge");
    const stale = await refusal(people.submitTransaction([
      ["create", entity("a")], ["update", entity("old", { n: 3 }), "Merge", { etag }],
    ]));
    assert.deepEqual([stale.status, stale.code], [412, "UpdateConditionNotSatisfied"]);
    assert.deepEqual((await all(people.listEntities())).map((each) => each.rowKey), ["old"]);
    const many = Array.from({ length: 101 }, (_, n) => ["create", entity(`${n}`)]);
    assert.equal((await refusal(people.submitTransaction(many))).status, 400);
  },

  async policies(people) {
    await people.setAccessPolicy([{ id: "reader", accessPolicy: {
      start: new Date("2020-01-01"), expiry: new Date("2035-01-01"), permission: "r" } }]);
    const [found] = await people.getAccessPolicy();
    assert.equal(found.id, "reader");
    assert.equal(found.accessPolicy.permission, "r");
    assert.equal(found.accessPolicy.expiry.getUTCFullYear(), 2035);
    await people.createEntity(entity("r", { n: 1 }));
    const token = generateTableSas(people.tableName, credential, { identifier: "reader" });
    const reader = new TableClient(url, people.tableName, new AzureSASCredential(token), options);
    assert.equal((await reader.getEntity("p", "r")).n, 1);
    assert.equal((await refusal(reader.createEntity(entity("s")))).status, 403);
    await people.setAccessPolicy([]);
    assert.equal((await refusal(reader.getEntity("p", "r"))).status, 403);
  },

  async signatures(people) {
    const token = generateTableSas(people.tableName, credential, {
      permissions: { query: true, add: true, update: true, delete: true },
      expiresOn: new Date(Date.now() + 3600_000),
      startPartitionKey: "a", endPartitionKey: "b",
    });
    const holder = new TableClient(url, people.tableName, new AzureSASCredential(token), options);
    for (const name of ["a", "b", "c"]) await people.createEntity(entity("r", { n: 1 }, name));
    const found = (await all(holder.listEntities())).map((each) => each.partitionKey);
    assert.deepEqual(found, ["a", "b"]);
    assert.equal((await refusal(holder.getEntity("c", "r"))).status, 403);
    await holder.submitTransaction([["upsert", entity("r", { n: 2 }, "b"), "Merge"]]);
    const outside = await refusal(holder.submitTransaction([["upsert", entity("r", {}, "c"), "Merge"]]));
    assert.equal(outside.status, 403);
    const wide = generateAccountSas(credential, {
      permissions: { query: true, list: true }, expiresOn: new Date(Date.now() + 3600_000),
    });
    const lister = new TableServiceClient(url, new AzureSASCredential(wide), options);
    assert.ok((await all(lister.listTables())).length > 0);
    assert.equal((await refusal(lister.createTable("Forbidden"))).status, 403);
  },

  async serviceProperties() {
    const before = await service.getProperties();
    assert.equal(before.logging.version, "1.0");
    await service.setProperties({ cors: [{ allowedOrigins: "http://a.example", allowedMethods: "GET",
      allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 7 }] });
    assert.equal((await service.getProperties()).cors[0].maxAgeInSeconds, 7);
    await service.setProperties({ cors: [] });
  },

  async serviceStatistics() {
    assert.equal((await refusal(service.getStatistics())).status, 400);
    const secondary = new TableServiceClient(`${url}-secondary`, credential, options);
    assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
  },

  async everyMethodWasCalled() {
    assert.deepEqual([...uncalled], []);
  },
};

async function main() {
  let number = 0;
  for (const [name, run] of Object.entries(scenarios)) {
    number += 1;
    const people = TableClient.fromConnectionString(connectionString, `Node${number}`, options);
    let error = null;
    try {
      await people.createTable();
      await run(people);
    } catch (failure) {
      error = failure.stack ?? String(failure);
    }
    await people.deleteTable().catch(() => {});
    console.log(JSON.stringify({ name, error }));
  }
}

main();
