// Makes tokens and signed requests with the JavaScript SDKs, as standard input asks for them, and
// writes them to standard output as JSON.  Nothing is sent anywhere.
"use strict";

const blob = require("@azure/storage-blob");
const queue = require("@azure/storage-queue");
const share = require("@azure/storage-file-share");
const lake = require("@azure/storage-file-datalake");
const tables = require("@azure/data-tables");

const dates = new Set(["startsOn", "expiresOn", "signedStartsOn", "signedExpiresOn"]);

function revive(values) {
  const made = {};
  for (const [name, value] of Object.entries(values)) {
    made[name] = dates.has(name) ? new Date(value) : value;
  }
  return made;
}

function token(asked, account, secret) {
  const values = revive(asked.values);
  const signer = (kind) =>
    asked.delegation
      ? [revive(asked.delegation), account]
      : [new kind.StorageSharedKeyCredential(account, secret)];
  switch (asked.make) {
    case "account":
      values.permissions = blob.AccountSASPermissions.parse(values.permissions);
      return blob
        .generateAccountSASQueryParameters(
          values,
          new blob.StorageSharedKeyCredential(account, secret),
        )
        .toString();
    case "blob":
      if (values.permissions) {
        const kind = values.blobName ? blob.BlobSASPermissions : blob.ContainerSASPermissions;
        values.permissions = kind.parse(values.permissions);
      }
      return blob.generateBlobSASQueryParameters(values, ...signer(blob)).toString();
    case "queue":
      values.permissions = queue.QueueSASPermissions.parse(values.permissions);
      return queue.generateQueueSASQueryParameters(values, ...signer(queue)).toString();
    case "file": {
      const kind = values.filePath ? share.FileSASPermissions : share.ShareSASPermissions;
      values.permissions = kind.parse(values.permissions);
      return share.generateFileSASQueryParameters(values, ...signer(share)).toString();
    }
    case "lake": {
      const kind = values.isDirectory
        ? lake.DirectorySASPermissions
        : lake.DataLakeSASPermissions;
      values.permissions = kind.parse(values.permissions);
      return lake.generateDataLakeSASQueryParameters(values, ...signer(lake)).toString();
    }
    case "table":
      return tables.generateTableSas(
        values.tableName,
        new tables.AzureNamedKeyCredential(account, secret),
        {
          permissions: { query: true, add: true },
          startsOn: values.startsOn,
          expiresOn: values.expiresOn,
          startPartitionKey: values.startPartitionKey,
          startRowKey: values.startRowKey,
          endPartitionKey: values.endPartitionKey,
          endRowKey: values.endRowKey,
        },
      );
    default:
      throw new Error(`nothing makes ${asked.make}`);
  }
}

class Kept extends Error {}

async function signed(call, account, secret) {
  let kept;
  const httpClient = {
    sendRequest(request) {
      const headers = {};
      // Storage's clients still hand over the headers of an older core.
      const pairs = request.headers.headersArray
        ? request.headers.headersArray().map((header) => [header.name, header.value])
        : request.headers;
      for (const [name, value] of pairs) {
        headers[name] = String(value);
      }
      kept = { method: request.method, url: request.url, headers };
      throw new Kept();
    },
  };
  const options = { httpClient, retryOptions: { maxTries: 1, maxRetries: 0 } };
  try {
    await call(options, account, secret);
  } catch (error) {
    if (!kept) {
      throw error;
    }
  }
  return kept;
}

const calls = {
  "b list containers": async (options, account, secret) => {
    const credential = new blob.StorageSharedKeyCredential(account, secret);
    const client = new blob.BlobServiceClient(`http://127.0.0.1:10000/${account}`, credential, options);
    await client.listContainers({ prefix: "a+b c/é", includeMetadata: true }).next();
  },
  "b put blob": async (options, account, secret) => {
    const credential = new blob.StorageSharedKeyCredential(account, secret);
    const client = new blob.BlobServiceClient(`http://127.0.0.1:10000/${account}`, credential, options);
    await client
      .getContainerClient("c1")
      .getBlockBlobClient("dir/é ü+%25.txt")
      .upload("hello", 5, { metadata: { a1: "x", a_b: "y" }, tags: { "t 1": "v&2" } });
  },
  "b get if changed": async (options, account, secret) => {
    const credential = new blob.StorageSharedKeyCredential(account, secret);
    const client = new blob.BlobServiceClient(`http://127.0.0.1:10000/${account}`, credential, options);
    await client
      .getContainerClient("c1")
      .getBlobClient("b")
      .download(3, 9, { conditions: { ifNoneMatch: '"0x1"', ifModifiedSince: new Date(0) } });
  },
  "q put message": async (options, account, secret) => {
    const credential = new queue.StorageSharedKeyCredential(account, secret);
    const client = new queue.QueueServiceClient(`http://127.0.0.1:10001/${account}`, credential, options);
    await client.getQueueClient("q1").sendMessage("hé", { visibilityTimeout: 5 });
  },
  "q delete message": async (options, account, secret) => {
    const credential = new queue.StorageSharedKeyCredential(account, secret);
    const client = new queue.QueueServiceClient(`http://127.0.0.1:10001/${account}`, credential, options);
    await client.getQueueClient("q1").deleteMessage("id", "AgA+/A==");
  },
  "f create directory": async (options, account, secret) => {
    const credential = new share.StorageSharedKeyCredential(account, secret);
    const client = new share.ShareServiceClient(`http://127.0.0.1:10003/${account}`, credential, options);
    await client.getShareClient("s1").getDirectoryClient("dïr one").create();
  },
  "t insert": async (options, account, secret) => {
    const credential = new tables.AzureNamedKeyCredential(account, secret);
    const url = `http://127.0.0.1:10002/${account}`;
    const client = new tables.TableClient(url, "people", credential, {
      ...options,
      allowInsecureConnection: true,
    });
    await client.createEntity({ partitionKey: "a'b", rowKey: "é /+" });
  },
  "t read": async (options, account, secret) => {
    const credential = new tables.AzureNamedKeyCredential(account, secret);
    const url = `http://127.0.0.1:10002/${account}`;
    const client = new tables.TableClient(url, "people", credential, {
      ...options,
      allowInsecureConnection: true,
    });
    await client.getEntity("a'b", "é |*(+");
  },
  "t query": async (options, account, secret) => {
    const credential = new tables.AzureNamedKeyCredential(account, secret);
    const url = `http://127.0.0.1:10002/${account}`;
    const client = new tables.TableClient(url, "people", credential, {
      ...options,
      allowInsecureConnection: true,
    });
    await client.listEntities({ queryOptions: { filter: "x gt 5 and y eq 'a+b'" } }).next();
  },
};

async function main() {
  let input = "";
  for await (const chunk of process.stdin) {
    input += chunk;
  }
  const { account, secret, tokens } = JSON.parse(input);
  const made = { tokens: {}, requests: {} };
  for (const [name, asked] of Object.entries(tokens)) {
    made.tokens[name] = token(asked, account, secret);
  }
  for (const [name, call] of Object.entries(calls)) {
    made.requests[name] = await signed(call, account, secret);
  }
  process.stdout.write(JSON.stringify(made));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
