// Scenarios of azure-storage-blob, azure-storage-queue and azure-data-tables: each has a container,
// queue or table of its own.  One JSON line for each, with what went wrong, on standard output.

import com.azure.core.exception.HttpResponseException;
import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableServiceException;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasProtocol;
import com.azure.data.tables.sas.TableSasSignatureValues;
import com.azure.storage.blob.BlobClient;
import com.azure.storage.blob.BlobClientBuilder;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.AccessTier;
import com.azure.storage.blob.models.AppendBlobRequestConditions;
import com.azure.storage.blob.models.BlobErrorCode;
import com.azure.storage.blob.models.BlobHttpHeaders;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobProperties;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobRequestConditions;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.models.BlockListType;
import com.azure.storage.blob.models.CopyStatusType;
import com.azure.storage.blob.models.DownloadRetryOptions;
import com.azure.storage.blob.models.LeaseStateType;
import com.azure.storage.blob.models.ListBlobsOptions;
import com.azure.storage.blob.models.PageRange;
import com.azure.storage.blob.models.ParallelTransferOptions;
import com.azure.storage.blob.options.BlobParallelUploadOptions;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.AppendBlobClient;
import com.azure.storage.blob.specialized.BlobLeaseClient;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import com.azure.storage.blob.specialized.BlobOutputStream;
import com.azure.storage.blob.specialized.BlockBlobClient;
import com.azure.storage.blob.specialized.PageBlobClient;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueClientBuilder;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.QueueMessageItem;
import com.azure.storage.queue.models.QueueStorageException;
import com.azure.storage.queue.models.QueuesSegmentOptions;
import com.azure.storage.queue.models.UpdateMessageResult;
import com.azure.storage.queue.sas.QueueSasPermission;
import com.azure.storage.queue.sas.QueueServiceSasSignatureValues;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

public final class Storage {
    private final BlobServiceClient blobs;
    private final QueueServiceClient queues;
    private final TableServiceClient tables;

    private interface Scenario {
        void run() throws Exception;
    }

    private Storage(String connectionString) {
        blobs = new BlobServiceClientBuilder().connectionString(connectionString).buildClient();
        queues = new QueueServiceClientBuilder().connectionString(connectionString).buildClient();
        tables = new TableServiceClientBuilder().connectionString(connectionString).buildClient();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> scenarios = new Storage(arguments[0]).scenarios();
        if (arguments.length > 1) {
            scenarios.keySet().retainAll(List.of(arguments).subList(1, arguments.length));
        }
        ExecutorService workers = Executors.newFixedThreadPool(4);
        for (Map.Entry<String, Scenario> each : scenarios.entrySet()) {
            workers.execute(() -> report(each.getKey(), attempt(each.getValue())));
        }
        workers.shutdown();
        workers.awaitTermination(10, TimeUnit.MINUTES);
        System.exit(0);
    }

    private static String attempt(Scenario scenario) {
        try {
            scenario.run();
            return null;
        } catch (Throwable raised) {
            StringWriter text = new StringWriter();
            raised.printStackTrace(new PrintWriter(text));
            return text.toString();
        }
    }

    private static synchronized void report(String name, String error) {
        String told = "null";
        if (error != null) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char letter : error.toCharArray()) {
                if (letter < ' ' || letter == '"' || letter == '\\' || letter > '~') {
                    quoted.append(String.format("\\u%04x", (int) letter));
                } else {
                    quoted.append(letter);
                }
            }
            told = quoted.append('"').toString();
        }
        System.out.println("{\"name\": \"" + name + "\", \"error\": " + told + "}");
    }

    private Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("parallelBlocks", this::parallelBlocks);
        all.put("streams", this::streams);
        all.put("blobProperties", this::blobProperties);
        all.put("blobConditions", this::blobConditions);
        all.put("blobLeases", this::blobLeases);
        all.put("appendBlob", this::appendBlob);
        all.put("pageBlob", this::pageBlob);
        all.put("copies", this::copies);
        all.put("tags", this::tags);
        all.put("blobListings", this::blobListings);
        all.put("blobSignatures", this::blobSignatures);
        all.put("messages", this::messages);
        all.put("queueService", this::queueService);
        all.put("entities", this::entities);
        all.put("entityConditions", this::entityConditions);
        all.put("entityPages", this::entityPages);
        all.put("transactions", this::transactions);
        all.put("tableSignatures", this::tableSignatures);
        return all;
    }

    private static void same(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + " is " + found + ", not " + wanted);
        }
    }

    private static void refused(int status, String code, Runnable call) {
        try {
            call.run();
        } catch (BlobStorageException answer) {
            same("the refusal", answer.getStatusCode() + " " + answer.getErrorCode(), status + " " + code);
            return;
        } catch (QueueStorageException answer) {
            same("the refusal", answer.getStatusCode() + " " + answer.getErrorCode(), status + " " + code);
            return;
        } catch (TableServiceException answer) {
            String found = answer.getResponse().getStatusCode() + " " + answer.getValue().getErrorCode();
            same("the refusal", found, status + " " + code);
            return;
        }
        throw new AssertionError("not refused with " + code);
    }

    private static byte[] pattern(int length) {
        byte[] made = new byte[length];
        for (int place = 0; place < length; place++) {
            made[place] = (byte) (place * 31 >> 3);
        }
        return made;
    }

    private static ByteArrayInputStream stream(String text) {
        return new ByteArrayInputStream(text.getBytes());
    }

    private static OffsetDateTime soon() {
        return OffsetDateTime.now(ZoneOffset.UTC).plusHours(1);
    }

    private BlobContainerClient container(String name) {
        return blobs.createBlobContainer(name);
    }

    private static BlobClient upload(BlobContainerClient container, String name, String text) {
        BlobClient client = container.getBlobClient(name);
        client.upload(BinaryData.fromString(text), true);
        return client;
    }

    private void parallelBlocks() {
        BlobContainerClient container = container("blocks");
        BlobClient client = container.getBlobClient("large");
        byte[] sent = pattern((5 << 20) + 17);
        ParallelTransferOptions parts = new ParallelTransferOptions()
            .setBlockSizeLong(1L << 20).setMaxSingleUploadSizeLong(1L << 20).setMaxConcurrency(3);
        client.uploadWithResponse(new BlobParallelUploadOptions(new ByteArrayInputStream(sent))
            .setParallelTransferOptions(parts).setComputeMd5(true), Duration.ofSeconds(30), Context.NONE);
        same("the content", Arrays.equals(client.downloadContent().toBytes(), sent), true);
        ByteArrayOutputStream part = new ByteArrayOutputStream();
        client.downloadStreamWithResponse(part, new BlobRange(1000, 500L), new DownloadRetryOptions(), null, true,
            Duration.ofSeconds(30), Context.NONE);
        same("a part", Arrays.equals(part.toByteArray(), Arrays.copyOfRange(sent, 1000, 1500)), true);
        same("its blocks", client.getBlockBlobClient().listBlocks(BlockListType.ALL).getCommittedBlocks().size(), 6);
        refused(400, "InvalidBlobOrBlock", () -> client.getBlockBlobClient().stageBlock("AAAA", stream("left"), 4));
        BlockBlobClient blocks = container.getBlobClient("small").getBlockBlobClient();
        blocks.stageBlock("AAAA", stream("left"), 4);
        same("staged", blocks.listBlocks(BlockListType.UNCOMMITTED).getUncommittedBlocks().size(), 1);
        blocks.commitBlockList(List.of("AAAA"), true);
        same("the block", blocks.downloadContent().toString(), "left");
    }

    private void streams() throws Exception {
        BlobClient client = container("streams").getBlobClient("written");
        byte[] sent = pattern(3 << 20);
        try (BlobOutputStream out = client.getBlockBlobClient().getBlobOutputStream(true)) {
            out.write(sent);
        }
        try (InputStream in = client.openInputStream()) {
            same("what was written", Arrays.equals(in.readAllBytes(), sent), true);
        }
        refused(404, "BlobNotFound", () -> blobs.getBlobContainerClient("streams").getBlobClient("none").getProperties());
        refused(404, "ContainerNotFound", () -> blobs.getBlobContainerClient("nowhere").getProperties());
    }

    private void blobProperties() {
        BlobClient client = upload(container("properties"), "a blob/with \u00fcn\u00efcode & +%", "text");
        client.setHttpHeaders(new BlobHttpHeaders().setContentType("text/x").setCacheControl("no-cache"));
        client.setMetadata(Map.of("key", "value"));
        client.setAccessTier(AccessTier.COOL);
        BlobProperties found = client.getProperties();
        same("properties", List.of(found.getContentType(), found.getCacheControl(), found.getAccessTier(),
            found.getMetadata().get("key")), List.of("text/x", "no-cache", AccessTier.COOL, "value"));
        BlobClient snapshot = client.getSnapshotClient(client.createSnapshot().getSnapshotId());
        client.upload(BinaryData.fromString("newer"), true);
        same("the snapshot", snapshot.downloadContent().toString(), "text");
        refused(409, "SnapshotsPresent", client::delete);
    }

    private void blobConditions() {
        BlobClient client = upload(container("conditions"), "one", "1");
        String first = client.getProperties().getETag();
        refused(409, "BlobAlreadyExists", () -> client.upload(BinaryData.fromString("2")));
        BlobRequestConditions matching = new BlobRequestConditions().setIfMatch(first);
        Scenario replace = () -> client.uploadWithResponse(
            new BlobParallelUploadOptions(BinaryData.fromString("3")).setRequestConditions(matching), null, Context.NONE);
        same("matching", attempt(replace), null);
        refused(412, "ConditionNotMet", () -> client.uploadWithResponse(
            new BlobParallelUploadOptions(BinaryData.fromString("4")).setRequestConditions(matching), null, Context.NONE));
        same("what is there", client.downloadContent().toString(), "3");
    }

    private void blobLeases() {
        BlobContainerClient container = container("leases");
        BlobClient client = upload(container, "held", "1");
        BlobLeaseClient lease = new BlobLeaseClientBuilder().blobClient(client).buildClient();
        lease.acquireLease(15);
        refused(412, "LeaseIdMissing", () -> client.upload(BinaryData.fromString("2"), true));
        lease.changeLease("11111111-2222-3333-4444-555555555555");
        lease.renewLease();
        same("the state", client.getProperties().getLeaseState(), LeaseStateType.LEASED);
        lease.releaseLease();
        BlobLeaseClient whole = new BlobLeaseClientBuilder().containerClient(container).buildClient();
        whole.acquireLease(-1);
        refused(412, "LeaseIdMissing", container::delete);
        whole.breakLease();
        container.delete();
    }

    private void appendBlob() {
        AppendBlobClient client = container("append").getBlobClient("log").getAppendBlobClient();
        client.create();
        client.appendBlock(stream("one"), 3);
        AppendBlobRequestConditions at = new AppendBlobRequestConditions().setAppendPosition(3L);
        client.appendBlockWithResponse(stream("two"), 3, null, at, null, Context.NONE);
        refused(412, "AppendPositionConditionNotMet",
            () -> client.appendBlockWithResponse(stream("two"), 3, null, at, null, Context.NONE));
        client.seal();
        refused(409, "BlobIsSealed", () -> client.appendBlock(stream("more"), 4));
        same("the log", client.downloadContent().toString(), "onetwo");
    }

    private void pageBlob() {
        PageBlobClient client = container("pages").getBlobClient("disk").getPageBlobClient();
        client.create(1 << 20);
        client.uploadPages(new PageRange().setStart(512).setEnd(1535), new ByteArrayInputStream(pattern(1024)));
        String before = client.createSnapshot().getSnapshotId();
        client.clearPages(new PageRange().setStart(512).setEnd(1023));
        List<Long> ends = new ArrayList<>();
        client.listPageRanges(new BlobRange(0)).forEach(
            range -> ends.addAll(List.of(range.getRange().getOffset(), range.getRange().getLength())));
        same("ranges", ends, List.of(1024L, 512L));
        List<Boolean> cleared = new ArrayList<>();
        client.listPageRangesDiff(new BlobRange(0), before).forEach(range -> cleared.add(range.isClear()));
        same("cleared since", cleared, List.of(true));
        client.resize(2048);
        same("the size", client.getProperties().getBlobSize(), 2048L);
    }

    private void copies() {
        BlobContainerClient container = container("copies");
        BlobClient source = upload(container, "source", "source");
        String address = source.getBlobUrl() + "?" + source.generateSas(
            new BlobServiceSasSignatureValues(soon(), new BlobSasPermission().setReadPermission(true)));
        BlobClient target = container.getBlobClient("target");
        same("copied", target.beginCopy(address, Duration.ofSeconds(1)).waitForCompletion(Duration.ofSeconds(20))
            .getValue().getCopyStatus(), CopyStatusType.SUCCESS);
        target.copyFromUrl(address);
        BlockBlobClient blocks = target.getBlockBlobClient();
        blocks.uploadFromUrl(address, true);
        blocks.stageBlockFromUrl("AAAA", address, new BlobRange(1, 2L));
        blocks.commitBlockList(List.of("AAAA"), true);
        same("a part", target.downloadContent().toString(), "ou");
    }

    private void tags() {
        BlobContainerClient container = container("tags");
        for (String name : List.of("a", "b", "c")) {
            upload(container, name, name).setTags(Map.of("shelf", name.equals("c") ? "2" : "1"));
        }
        Set<String> found = new TreeSet<>();
        container.findBlobsByTags("\"shelf\"='1'").forEach(item -> found.add(item.getName()));
        same("found", found, Set.of("a", "b"));
        same("tags", container.getBlobClient("c").getTags(), Map.of("shelf", "2"));
    }

    private void blobListings() {
        BlobContainerClient container = container("listings");
        for (String name : List.of("a/1", "a/2", "b/1", "c", "d e+\u00fc")) {
            upload(container, name, name);
        }
        List<String> names = new ArrayList<>();
        container.listBlobs(new ListBlobsOptions().setMaxResultsPerPage(2), null).forEach(item -> names.add(item.getName()));
        same("names", names, List.of("a/1", "a/2", "b/1", "c", "d e+\u00fc"));
        List<String> level = new ArrayList<>();
        for (BlobItem item : container.listBlobsByHierarchy("")) {
            level.add((Boolean.TRUE.equals(item.isPrefix()) ? "> " : "") + item.getName());
        }
        same("a level", level, List.of("c", "d e+\u00fc", "> a/", "> b/")); // as the client orders them
    }

    private void blobSignatures() {
        BlobClient client = upload(container("signed"), "one", "signed");
        String token = client.generateSas(new BlobServiceSasSignatureValues(soon(), new BlobSasPermission().setReadPermission(true)));
        BlobClient reader = new BlobClientBuilder().endpoint(client.getBlobUrl() + "?" + token).buildClient();
        same("read", reader.downloadContent().toString(), "signed");
        refused(403, "AuthorizationPermissionMismatch", reader::delete);
        BlobClient nobody = new BlobClientBuilder().endpoint(client.getBlobUrl() + "?" + token.replace("sp=r", "sp=rw")).buildClient();
        refused(403, "AuthenticationFailed", nobody::downloadContent);
    }

    private void messages() {
        QueueClient queue = queues.createQueue("messages");
        for (int place = 0; place < 5; place++) {
            queue.sendMessage("<" + place + "&>");
        }
        same("peeked", queue.peekMessage().getBody().toString(), "<0&>");
        List<QueueMessageItem> taken = new ArrayList<>();
        queue.receiveMessages(32, Duration.ofSeconds(60), null, Context.NONE).forEach(taken::add);
        same("taken", taken.size(), 5);
        QueueMessageItem first = taken.get(0);
        UpdateMessageResult changed = queue.updateMessage(
            first.getMessageId(), first.getPopReceipt(), "changed", Duration.ZERO);
        refused(404, "MessageNotFound", () -> queue.deleteMessage(first.getMessageId(), first.getPopReceipt()));
        same("again", queue.receiveMessage().getBody().toString(), "changed");
        same("the count", queue.getProperties().getApproximateMessagesCountLong(), 5L);
        same("its receipt is newer", Objects.equals(changed.getPopReceipt(), first.getPopReceipt()), false);
        queue.clearMessages();
        same("the count", queue.getProperties().getApproximateMessagesCountLong(), 0L);
        String token = queue.generateSas(new QueueServiceSasSignatureValues(soon(), new QueueSasPermission().setAddPermission(true)));
        QueueClient adder = new QueueClientBuilder().endpoint(queue.getQueueUrl() + "?" + token).buildClient();
        adder.sendMessage("signed");
        refused(403, "AuthorizationPermissionMismatch", () -> adder.receiveMessage());
        queue.delete();
        refused(404, "QueueNotFound", () -> queue.sendMessage("late"));
    }

    private void queueService() {
        for (String name : List.of("listed-a", "listed-b", "listed-c")) {
            queues.createQueueWithResponse(name, Map.of("key", "value"), null, Context.NONE);
        }
        List<String> names = new ArrayList<>();
        queues.listQueues(new QueuesSegmentOptions().setPrefix("listed-").setMaxResultsPerPage(2).setIncludeMetadata(true),
            null, Context.NONE).forEach(item -> names.add(item.getName() + "=" + item.getMetadata().get("key")));
        same("queues", names, List.of("listed-a=value", "listed-b=value", "listed-c=value"));
        queues.setProperties(queues.getProperties());
    }

    private TableClient table(String name) {
        return tables.createTable(name);
    }

    private void entities() {
        TableClient table = table("entities");
        Map<String, Object> sent = new LinkedHashMap<>();
        sent.put("Text", "it's \u00fc");
        sent.put("Whole", 7);
        sent.put("Long", 1L << 60);
        sent.put("Real", 1.5);
        sent.put("Yes", true);
        sent.put("When", OffsetDateTime.of(2026, 1, 2, 3, 4, 5, 600000000, ZoneOffset.UTC));
        sent.put("Id", UUID.fromString("11111111-2222-3333-4444-555555555555"));
        TableEntity entity = new TableEntity("p'q", "r \u00fc").setProperties(sent);
        entity.addProperty("Bytes", new byte[] {1, 2, -1});
        table.createEntity(entity);
        TableEntity found = table.getEntity("p'q", "r \u00fc");
        sent.forEach((name, value) -> same(name, found.getProperty(name), value));
        same("Bytes", Arrays.equals((byte[]) found.getProperty("Bytes"), new byte[] {1, 2, -1}), true);
        refused(409, "EntityAlreadyExists", () -> table.createEntity(entity));
        TableEntity less = new TableEntity("p'q", "r \u00fc").addProperty("Text", "merged");
        table.updateEntity(less, TableEntityUpdateMode.MERGE);
        same("merged", table.getEntity("p'q", "r \u00fc").getProperty("Whole"), 7);
        table.updateEntity(less, TableEntityUpdateMode.REPLACE);
        same("replaced", table.getEntity("p'q", "r \u00fc").getProperty("Whole"), null);
        table.deleteEntity("p'q", "r \u00fc");
        refused(404, "ResourceNotFound", () -> table.getEntity("p'q", "r \u00fc"));
    }

    private void entityConditions() {
        TableClient table = table("versions");
        table.createEntity(new TableEntity("p", "r").addProperty("Count", 0));
        TableEntity older = table.getEntity("p", "r");
        table.updateEntityWithResponse(older.addProperty("Count", 1), TableEntityUpdateMode.REPLACE, true, null, Context.NONE);
        refused(412, "UpdateConditionNotSatisfied", () -> table.updateEntityWithResponse(
            older, TableEntityUpdateMode.REPLACE, true, null, Context.NONE));
        refused(412, "UpdateConditionNotSatisfied", () -> table.deleteEntityWithResponse(older, true, null, Context.NONE));
        table.deleteEntityWithResponse(table.getEntity("p", "r"), true, null, Context.NONE);
    }

    private void entityPages() {
        TableClient table = table("pages");
        for (int place = 0; place < 12; place++) {
            table.createEntity(new TableEntity("p" + place % 2, String.format("%02d", place)).addProperty("Number", place));
        }
        List<String> rows = new ArrayList<>();
        table.listEntities(new ListEntitiesOptions().setFilter("PartitionKey eq 'p1' and Number gt 2").setTop(2)
            .setSelect(List.of("RowKey")), null, Context.NONE).forEach(entity -> rows.add(entity.getRowKey()));
        same("rows", rows, List.of("03", "05", "07", "09", "11"));
    }

    private void transactions() {
        TableClient table = table("transactions");
        List<TableTransactionAction> steps = new ArrayList<>();
        for (int place = 0; place < 100; place++) {
            steps.add(new TableTransactionAction(TableTransactionActionType.CREATE, new TableEntity("p", "" + place)));
        }
        table.submitTransaction(steps);
        try {
            table.submitTransaction(List.of(
                new TableTransactionAction(TableTransactionActionType.UPSERT_REPLACE, new TableEntity("p", "new")),
                new TableTransactionAction(TableTransactionActionType.CREATE, new TableEntity("p", "0"))));
            throw new AssertionError("a step that cannot be went through");
        } catch (TableTransactionFailedException failed) {
            same("the step", failed.getFailedTransactionActionIndex(), 1);
        }
        refused(404, "ResourceNotFound", () -> table.getEntity("p", "new"));
        table.submitTransaction(List.of(
            new TableTransactionAction(TableTransactionActionType.DELETE, new TableEntity("p", "0")),
            new TableTransactionAction(TableTransactionActionType.UPDATE_MERGE, new TableEntity("p", "1").addProperty("A", "b"))));
        same("merged", table.getEntity("p", "1").getProperty("A"), "b");
    }

    private void tableSignatures() {
        TableClient table = table("signed");
        String token = table.generateSas(new TableSasSignatureValues(soon(), new TableSasPermission().setAddPermission(true))
            .setProtocol(TableSasProtocol.HTTPS_HTTP));
        TableServiceClient service = new TableServiceClientBuilder().endpoint(tables.getServiceEndpoint()).sasToken(token).buildClient();
        TableClient adder = service.getTableClient("signed");
        adder.createEntity(new TableEntity("p", "r"));
        refused(403, "AuthorizationPermissionMismatch", () -> adder.getEntity("p", "r"));
        List<String> names = new ArrayList<>();
        tables.listTables().forEach(item -> names.add(item.getName()));
        same("listed", names.contains("signed"), true);
    }
}
