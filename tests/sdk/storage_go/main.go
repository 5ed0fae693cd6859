// Scenarios of azblob, azqueue and aztables: each has a container, queue or table of its own.  One
// JSON line for each, with what went wrong, on standard output.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/queueerror"
	queuesas "github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/sas"
)

type world struct {
	context.Context
	blobs  *service.Client
	queues *azqueue.ServiceClient
	tables *aztables.ServiceClient

	queueKey *azqueue.SharedKeyCredential
	tableKey *aztables.SharedKeyCredential
	tableURL string
}

var scenarios = []struct {
	name string
	run  func(world)
}{
	{"parallel_blocks", parallelBlocks},
	{"blob_properties", blobProperties},
	{"blob_conditions", blobConditions},
	{"blob_leases", blobLeases},
	{"append_blob", appendBlob},
	{"page_blob", pageBlob},
	{"copies", copies},
	{"tags_and_batches", tagsAndBatches},
	{"blob_listings", blobListings},
	{"blob_signatures", blobSignatures},
	{"blob_service", blobService},
	{"queue_messages", queueMessages},
	{"queue_policies", queuePolicies},
	{"queue_service", queueService},
	{"entities", entities},
	{"entity_conditions", entityConditions},
	{"entity_pages", entityPages},
	{"transactions", transactions},
	{"table_signatures", tableSignatures},
	{"table_service", tableService},
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func same(what string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%s is %#v, not %#v", what, found, wanted))
	}
}

func refused[C ~string](err error, status int, code C) {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		panic(fmt.Errorf("not refused with %s: %v", code, err))
	}
	same("the refusal", fmt.Sprint(answer.StatusCode, answer.ErrorCode), fmt.Sprint(status, code))
}

func to[T any](value T) *T { return &value }

func all[T any](ctx context.Context, pager *runtime.Pager[T]) (pages []T) {
	for pager.More() {
		pages = append(pages, got(pager.NextPage(ctx)))
	}
	return
}

func body(text string) io.ReadSeekCloser { return streaming.NopCloser(strings.NewReader(text)) }

func (w world) container(name string) *container.Client {
	made := w.blobs.NewContainerClient(name)
	got(made.Create(w, nil))
	return made
}

func (w world) read(client *blob.Client) string {
	answer := got(client.DownloadStream(w, nil))
	return string(got(io.ReadAll(answer.Body)))
}

func pattern(length int) []byte {
	made := make([]byte, length)
	for place := range made {
		made[place] = byte(place * 31 >> 3)
	}
	return made
}

func parallelBlocks(w world) {
	blobs := w.container("blocks")
	client := blobs.NewBlockBlobClient("large")
	sent := pattern(9<<20 + 17)
	uploaded := got(client.UploadStream(w, bytes.NewReader(sent), &blockblob.UploadStreamOptions{
		BlockSize: 1 << 20, Concurrency: 4, TransactionalValidation: blob.TransferValidationTypeComputeCRC64(),
	}))
	found := make([]byte, len(sent))
	got(client.DownloadBuffer(w, found, &blob.DownloadBufferOptions{BlockSize: 1 << 20, Concurrency: 4}))
	same("what was sent as a stream", bytes.Equal(found, sent), true)
	same("its ETag", *got(client.GetProperties(w, nil)).ETag, *uploaded.ETag)
	got(client.UploadBuffer(w, sent[1:], &blockblob.UploadBufferOptions{BlockSize: 2 << 20, Concurrency: 3}))
	same("what was sent from a buffer", []byte(w.read(client.BlobClient()))[:100], sent[1:101])
	got(client.StageBlock(w, "AAAA", body("left"), nil))
	lists := got(client.GetBlockList(w, blockblob.BlockListTypeAll, nil))
	same("blocks", []int{len(lists.CommittedBlocks), len(lists.UncommittedBlocks)}, []int{0, 1})
	got(client.CommitBlockList(w, []string{"AAAA"}, nil))
	same("the block", w.read(client.BlobClient()), "left")
	ranged := got(client.DownloadStream(w, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: 1, Count: 2}, RangeGetContentMD5: to(true)}))
	same("the range", string(got(io.ReadAll(ranged.Body))), "ef")
	same("its MD5", len(ranged.ContentMD5), 16)
	_, err := blobs.NewBlobClient("none").GetProperties(w, nil)
	refused(err, 404, bloberror.BlobNotFound)
}

func blobProperties(w world) {
	client := w.container("properties").NewBlockBlobClient("a blob/with ünïcode & +%")
	got(client.Upload(w, body("text"), &blockblob.UploadOptions{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to("text/plain"), BlobCacheControl: to("no-cache")},
		Metadata:    map[string]*string{"Key": to("value")},
		Tier:        to(blob.AccessTierCool),
	}))
	found := got(client.GetProperties(w, nil))
	same("properties", []string{*found.ContentType, *found.CacheControl, *found.AccessTier, *found.Metadata["Key"]},
		[]string{"text/plain", "no-cache", "Cool", "value"})
	got(client.SetHTTPHeaders(w, blob.HTTPHeaders{BlobContentEncoding: to("x-none")}, nil))
	got(client.SetMetadata(w, map[string]*string{"other": to("1")}, nil))
	got(client.SetTier(w, blob.AccessTierHot, nil))
	found = got(client.GetProperties(w, nil))
	same("the type", found.ContentType, (*string)(nil))
	same("changed", []string{*found.ContentEncoding, *found.AccessTier, *found.Metadata["Other"]}, []string{"x-none", "Hot", "1"})
	snapshot := got(client.CreateSnapshot(w, nil))
	got(client.Upload(w, body("newer"), nil))
	same("the snapshot", w.read(got(client.WithSnapshot(*snapshot.Snapshot)).BlobClient()), "text")
	_, err := client.Delete(w, nil)
	refused(err, 409, bloberror.SnapshotsPresent)
	got(client.Delete(w, &blob.DeleteOptions{DeleteSnapshots: to(blob.DeleteSnapshotsOptionTypeInclude)}))
}

func blobConditions(w world) {
	client := w.container("conditions").NewBlockBlobClient("one")
	first := got(client.Upload(w, body("1"), nil))
	absent := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to(azcore.ETagAny)}}
	_, err := client.Upload(w, body("2"), &blockblob.UploadOptions{AccessConditions: absent})
	refused(err, 409, bloberror.BlobAlreadyExists)
	matching := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: first.ETag}}
	got(client.Upload(w, body("3"), &blockblob.UploadOptions{AccessConditions: matching}))
	_, err = client.Upload(w, body("4"), &blockblob.UploadOptions{AccessConditions: matching})
	refused(err, 412, bloberror.ConditionNotMet)
	later := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfModifiedSince: to(time.Now().Add(time.Hour))}}
	unchanged := got(client.DownloadStream(w, &blob.DownloadStreamOptions{AccessConditions: later}))
	same("an answer without a body", *unchanged.ErrorCode, string(bloberror.ConditionNotMet))

	// Of many who change the same state, one at a time wins.
	counter := client
	got(counter.Upload(w, body("0"), nil))
	var group sync.WaitGroup
	failed := make(chan error, 4)
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 5; {
				answer, err := counter.DownloadStream(w, nil)
				if err == nil {
					text, _ := io.ReadAll(answer.Body)
					var count int
					fmt.Sscan(string(text), &count)
					_, err = counter.Upload(w, body(fmt.Sprint(count+1)), &blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{
						ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: answer.ETag}}})
				}
				switch {
				case err == nil:
					done++
				case !bloberror.HasCode(err, bloberror.ConditionNotMet):
					failed <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(failed)
	must(<-failed)
	same("the counter", w.read(counter.BlobClient()), "20")
}

func blobLeases(w world) {
	blobs := w.container("leases")
	client := blobs.NewBlockBlobClient("held")
	got(client.Upload(w, body("1"), nil))
	held := got(lease.NewBlobClient(client, nil))
	got(held.AcquireLease(w, 15, nil))
	_, err := client.Upload(w, body("2"), nil)
	refused(err, 412, bloberror.LeaseIDMissing)
	got(client.Upload(w, body("3"), &blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{
		LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: held.LeaseID()}}}))
	got(held.ChangeLease(w, "11111111-2222-3333-4444-555555555555", nil))
	got(held.RenewLease(w, nil))
	_, err = got(lease.NewBlobClient(client, nil)).AcquireLease(w, -1, nil)
	refused(err, 409, bloberror.LeaseAlreadyPresent)
	same("the state", *got(client.GetProperties(w, nil)).LeaseState, lease.StateTypeLeased)
	got(held.ReleaseLease(w, nil))
	whole := got(lease.NewContainerClient(blobs, nil))
	got(whole.AcquireLease(w, -1, nil))
	_, err = blobs.Delete(w, nil)
	refused(err, 412, bloberror.LeaseIDMissing)
	got(whole.BreakLease(w, &lease.ContainerBreakOptions{BreakPeriod: to(int32(0))}))
	got(blobs.Delete(w, nil))
}

func appendBlob(w world) {
	client := w.container("append").NewAppendBlobClient("log")
	got(client.Create(w, nil))
	got(client.AppendBlock(w, body("one"), nil))
	at := &appendblob.AppendBlockOptions{AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: to(int64(3))}}
	got(client.AppendBlock(w, body("two"), at))
	_, err := client.AppendBlock(w, body("two"), at)
	refused(err, 412, bloberror.AppendPositionConditionNotMet)
	got(client.Seal(w, nil))
	_, err = client.AppendBlock(w, body("more"), nil)
	refused(err, 409, bloberror.Code("BlobIsSealed"))
	same("the log", w.read(client.BlobClient()), "onetwo")
}

func pageBlob(w world) {
	client := w.container("pages").NewPageBlobClient("disk")
	got(client.Create(w, 1<<20, nil))
	got(client.UploadPages(w, streaming.NopCloser(bytes.NewReader(pattern(1024))), blob.HTTPRange{Offset: 512, Count: 1024}, nil))
	before := got(client.CreateSnapshot(w, nil))
	got(client.ClearPages(w, blob.HTTPRange{Offset: 512, Count: 512}, nil))
	ranges := all(w, client.NewGetPageRangesPager(nil))[0].PageRange
	same("ranges", []int64{int64(len(ranges)), *ranges[0].Start, *ranges[0].End}, []int64{1, 1024, 1535})
	changed := all(w, client.NewGetPageRangesDiffPager(&pageblob.GetPageRangesDiffOptions{PrevSnapshot: before.Snapshot}))[0]
	same("cleared", []int64{*changed.ClearRange[0].Start, *changed.ClearRange[0].End}, []int64{512, 1023})
	got(client.Resize(w, 2048, nil))
	number := got(client.UpdateSequenceNumber(w, &pageblob.UpdateSequenceNumberOptions{
		ActionType: to(pageblob.SequenceNumberActionTypeUpdate), SequenceNumber: to(int64(7))}))
	same("the number", *number.BlobSequenceNumber, int64(7))
	_, err := client.UploadPages(w, body("short"), blob.HTTPRange{Offset: 0, Count: 512}, nil)
	if err == nil {
		panic("a short page went through")
	}
}

func copies(w world) {
	blobs := w.container("copies")
	source := blobs.NewBlockBlobClient("source")
	got(source.Upload(w, body("source"), nil))
	target := blobs.NewBlockBlobClient("target")
	address := got(source.GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil))
	same("copied", *got(target.StartCopyFromURL(w, address, nil)).CopyStatus, blob.CopyStatusTypeSuccess)
	same("a copy", w.read(target.BlobClient()), "source")
	got(target.CopyFromURL(w, address, nil))
	got(target.UploadBlobFromURL(w, address, nil))
	got(target.StageBlockFromURL(w, "AAAA", address, &blockblob.StageBlockFromURLOptions{Range: blob.HTTPRange{Offset: 1, Count: 2}}))
	got(target.CommitBlockList(w, []string{"AAAA"}, nil))
	same("a part", w.read(target.BlobClient()), "ou")
	_, err := target.AbortCopyFromURL(w, "11111111-2222-3333-4444-555555555555", nil)
	refused(err, 409, bloberror.NoPendingCopyOperation)
}

func tagsAndBatches(w world) {
	blobs := w.container("tags")
	for _, name := range []string{"a", "b", "c"} {
		got(blobs.NewBlockBlobClient(name).Upload(w, body(name), &blockblob.UploadOptions{Tags: map[string]string{"kind": "k " + name}}))
	}
	got(blobs.NewBlobClient("a").SetTags(w, map[string]string{"kind": "k b"}, nil))
	found := got(blobs.FilterBlobs(w, `"kind"='k b'`, nil))
	same("found", []string{*found.Blobs[0].Name, *found.Blobs[1].Name}, []string{"a", "b"})
	same("one tag", *got(blobs.NewBlobClient("c").GetTags(w, nil)).BlobTagSet[0].Value, "k c")
	wrong := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfTags: to(`"kind"='none'`)}}
	_, err := blobs.NewBlobClient("c").DownloadStream(w, &blob.DownloadStreamOptions{AccessConditions: wrong})
	refused(err, 412, bloberror.ConditionNotMet)
	tiers := got(blobs.NewBatchBuilder())
	must(tiers.SetTier("c", blob.AccessTierCool, nil))
	must(tiers.SetTier("none", blob.AccessTierCool, nil))
	answers := got(blobs.SubmitBatch(w, tiers, nil)).Responses
	must(answers[0].Error)
	refused(answers[1].Error, 404, bloberror.BlobNotFound)
	gone := got(w.blobs.NewBatchBuilder())
	for _, name := range []string{"a", "b"} {
		must(gone.Delete("tags", name, nil))
	}
	for _, answer := range got(w.blobs.SubmitBatch(w, gone, nil)).Responses {
		must(answer.Error)
	}
	same("what is left", len(all(w, blobs.NewListBlobsFlatPager(nil))[0].Segment.BlobItems), 1)
}

func blobListings(w world) {
	blobs := w.container("listings")
	for _, name := range []string{"a/1", "a/2", "b/1", "c", "d e+ü"} {
		got(blobs.NewBlockBlobClient(name).Upload(w, body(name), &blockblob.UploadOptions{Metadata: map[string]*string{"name": to("x")}}))
	}
	var names []string
	pages := all(w, blobs.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		MaxResults: to(int32(2)), Include: container.ListBlobsInclude{Metadata: true}}))
	for _, page := range pages {
		for _, item := range page.Segment.BlobItems {
			same("metadata", *item.Metadata["name"], "x")
			names = append(names, *item.Name)
		}
	}
	same("pages", len(pages), 3)
	same("names", names, []string{"a/1", "a/2", "b/1", "c", "d e+ü"})
	level := all(w, blobs.NewListBlobsHierarchyPager("/", nil))[0].Segment
	same("folders", []string{*level.BlobPrefixes[0].Name, *level.BlobPrefixes[1].Name}, []string{"a/", "b/"})
	same("beside them", *level.BlobItems[1].Name, "d e+ü")
	inside := all(w, blobs.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: to("a/")}))[0].Segment
	same("inside", len(inside.BlobItems), 2)
	var found []string
	for _, page := range all(w, w.blobs.NewListContainersPager(&service.ListContainersOptions{Prefix: to("listing")})) {
		for _, item := range page.ContainerItems {
			found = append(found, *item.Name)
		}
	}
	same("containers", found, []string{"listings"})
}

func blobSignatures(w world) {
	blobs := w.container("signed")
	client := blobs.NewBlockBlobClient("one")
	got(client.Upload(w, body("signed"), nil))
	until := time.Now().Add(time.Hour)
	reader := got(blob.NewClientWithNoCredential(got(client.GetSASURL(sas.BlobPermissions{Read: true}, until, nil)), nil))
	same("read", w.read(reader), "signed")
	_, err := reader.Delete(w, nil)
	refused(err, 403, bloberror.AuthorizationPermissionMismatch)
	writer := got(container.NewClientWithNoCredential(got(blobs.GetSASURL(sas.ContainerPermissions{Create: true, Write: true, List: true}, until, nil)), nil))
	got(writer.NewBlockBlobClient("two").Upload(w, body("2"), nil))
	same("listed", len(all(w, writer.NewListBlobsFlatPager(nil))[0].Segment.BlobItems), 2)
	whole := got(service.NewClientWithNoCredential(got(w.blobs.GetSASURL(
		sas.AccountResourceTypes{Service: true, Container: true, Object: true}, sas.AccountPermissions{Read: true, List: true}, until, nil)), nil))
	same("read", w.read(whole.NewContainerClient("signed").NewBlobClient("two")), "2")
	_, err = whole.CreateContainer(w, "refused", nil)
	refused(err, 403, bloberror.AuthorizationPermissionMismatch)
	got(blobs.SetAccessPolicy(w, &container.SetAccessPolicyOptions{
		Access: to(container.PublicAccessTypeBlob),
		ContainerACL: []*container.SignedIdentifier{{ID: to("readers"), AccessPolicy: &container.AccessPolicy{
			Expiry: to(until), Permission: to("r")}}},
	}))
	same("policies", *got(blobs.GetAccessPolicy(w, nil)).SignedIdentifiers[0].ID, "readers")
	anyone := got(http.Get(client.URL()))
	defer anyone.Body.Close()
	same("public", string(got(io.ReadAll(anyone.Body))), "signed")
}

func blobService(w world) {
	origin := &service.CORSRule{AllowedOrigins: to("*"), AllowedMethods: to("GET"), AllowedHeaders: to("*"), ExposedHeaders: to("*"), MaxAgeInSeconds: to(int32(9))}
	got(w.blobs.SetProperties(w, &service.SetPropertiesOptions{CORS: []*service.CORSRule{origin},
		DeleteRetentionPolicy: &service.RetentionPolicy{Enabled: to(true), Days: to(int32(1))}}))
	found := got(w.blobs.GetProperties(w, nil))
	same("CORS", *found.CORS[0].MaxAgeInSeconds, int32(9))
	client := w.container("kept").NewBlockBlobClient("back")
	got(client.Upload(w, body("back"), nil))
	got(client.Delete(w, nil))
	got(client.Undelete(w, nil))
	same("undeleted", w.read(client.BlobClient()), "back")
	got(w.blobs.SetProperties(w, &service.SetPropertiesOptions{CORS: []*service.CORSRule{},
		DeleteRetentionPolicy: &service.RetentionPolicy{Enabled: to(false)}}))
	same("kind", string(*got(w.blobs.GetAccountInfo(w, nil)).AccountKind), "StorageV2")
}

func (w world) queue(name string) *azqueue.QueueClient {
	made := w.queues.NewQueueClient(name)
	got(made.Create(w, &azqueue.CreateOptions{Metadata: map[string]*string{"key": to("value")}}))
	return made
}

func queueMessages(w world) {
	queue := w.queue("messages")
	for place := range 5 {
		got(queue.EnqueueMessage(w, fmt.Sprint("<", place, "&>"), &azqueue.EnqueueMessageOptions{TimeToLive: to(int32(-1))}))
	}
	same("peeked", len(got(queue.PeekMessages(w, &azqueue.PeekMessagesOptions{NumberOfMessages: to(int32(3))})).Messages), 3)
	taken := got(queue.DequeueMessages(w, &azqueue.DequeueMessagesOptions{NumberOfMessages: to(int32(32)), VisibilityTimeout: to(int32(60))})).Messages
	same("taken", []any{len(taken), *taken[0].MessageText, *taken[0].DequeueCount}, []any{5, "<0&>", int64(1)})
	same("what is left", len(got(queue.DequeueMessage(w, nil)).Messages), 0)
	changed := got(queue.UpdateMessage(w, *taken[0].MessageID, *taken[0].PopReceipt, "changed", &azqueue.UpdateMessageOptions{VisibilityTimeout: to(int32(0))}))
	_, err := queue.DeleteMessage(w, *taken[0].MessageID, *taken[0].PopReceipt, nil)
	refused(err, 404, queueerror.MessageNotFound)
	got(queue.DeleteMessage(w, *taken[0].MessageID, *changed.PopReceipt, nil))
	same("the count", *got(queue.GetProperties(w, nil)).ApproximateMessagesCount, int32(4))
	got(queue.ClearMessages(w, nil))
	same("the count", *got(queue.GetProperties(w, nil)).ApproximateMessagesCount, int32(0))
	_, err = queue.EnqueueMessage(w, strings.Repeat("x", 65537), nil)
	refused(err, 413, queueerror.RequestBodyTooLarge)
	got(queue.Delete(w, nil))
	_, err = queue.EnqueueMessage(w, "late", nil)
	refused(err, 404, queueerror.QueueNotFound)
}

func queuePolicies(w world) {
	queue := w.queue("policies")
	until := time.Now().Add(time.Hour)
	got(queue.SetAccessPolicy(w, &azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{
		{ID: to("adders"), AccessPolicy: &azqueue.AccessPolicy{Expiry: to(until), Permission: to("a")}}}}))
	same("policies", *got(queue.GetAccessPolicy(w, nil)).SignedIdentifiers[0].ID, "adders")
	// GetSASURL makes signatures that are good over HTTPS only.
	token := got(queuesas.QueueSignatureValues{Protocol: queuesas.ProtocolHTTPSandHTTP, ExpiryTime: until.UTC(),
		Permissions: to(queuesas.QueuePermissions{Add: true}).String(), QueueName: "policies"}.SignWithSharedKey(w.queueKey))
	adder := got(azqueue.NewQueueClientWithNoCredential(queue.URL()+"?"+token.Encode(), nil))
	got(adder.EnqueueMessage(w, "signed", nil))
	_, err := adder.DequeueMessage(w, nil)
	refused(err, 403, queueerror.AuthorizationPermissionMismatch)
	got(queue.SetMetadata(w, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"other": to("1")}}))
	same("metadata", *got(queue.GetProperties(w, nil)).Metadata["Other"], "1")
}

func queueService(w world) {
	for _, name := range []string{"listed-a", "listed-b", "listed-c"} {
		w.queue(name)
	}
	var names []string
	for _, page := range all(w, w.queues.NewListQueuesPager(&azqueue.ListQueuesOptions{
		Prefix: to("listed-"), MaxResults: to(int32(2)), Include: azqueue.ListQueuesInclude{Metadata: true}})) {
		for _, queue := range page.Queues {
			same("metadata", *queue.Metadata["key"], "value")
			names = append(names, *queue.Name)
		}
	}
	same("queues", names, []string{"listed-a", "listed-b", "listed-c"})
	got(w.queues.SetProperties(w, &azqueue.SetPropertiesOptions{CORS: []*azqueue.CORSRule{}}))
	got(w.queues.GetServiceProperties(w, nil))
}

func (w world) table(name string) *aztables.Client {
	got(w.tables.CreateTable(w, name, nil))
	return w.tables.NewClient(name)
}

func entity(partition, row string, properties map[string]any) []byte {
	return got(json.Marshal(aztables.EDMEntity{
		Entity: aztables.Entity{PartitionKey: partition, RowKey: row}, Properties: properties}))
}

func read(text []byte) (found aztables.EDMEntity) {
	must(json.Unmarshal(text, &found))
	return
}

func entities(w world) {
	table := w.table("entities")
	moment := time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.UTC)
	sent := map[string]any{
		"Text": "it's ü", "Whole": int32(7), "Long": aztables.EDMInt64(1 << 60), "Real": 1.5, "Yes": true,
		"Bytes": aztables.EDMBinary{1, 2, 255}, "When": aztables.EDMDateTime(moment),
		"Id": aztables.EDMGUID("11111111-2222-3333-4444-555555555555"),
	}
	got(table.AddEntity(w, entity("p q", "r ü", sent), nil))
	found := read(got(table.GetEntity(w, "p q", "r ü", nil)).Value)
	for name, value := range sent {
		same(name, found.Properties[name], value)
	}
	_, err := table.AddEntity(w, entity("p q", "r ü", sent), nil)
	refused(err, 409, aztables.EntityAlreadyExists)
	got(table.UpsertEntity(w, entity("p q", "r ü", map[string]any{"Text": "merged"}), &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeMerge}))
	found = read(got(table.GetEntity(w, "p q", "r ü", nil)).Value)
	same("merged", []any{found.Properties["Text"], found.Properties["Yes"]}, []any{"merged", true})
	got(table.UpsertEntity(w, entity("p q", "r ü", map[string]any{"Text": "replaced"}), &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}))
	found = read(got(table.GetEntity(w, "p q", "r ü", nil)).Value)
	same("replaced", len(found.Properties), 1)
	got(table.DeleteEntity(w, "p q", "r ü", nil))
	_, err = table.GetEntity(w, "p q", "r ü", nil)
	refused(err, 404, aztables.ResourceNotFound)
}

func entityConditions(w world) {
	table := w.table("versions")
	made := got(table.AddEntity(w, entity("p", "r", map[string]any{"Count": int32(0)}), nil))
	changed := got(table.UpdateEntity(w, entity("p", "r", map[string]any{"Count": int32(1)}), &aztables.UpdateEntityOptions{IfMatch: &made.ETag, UpdateMode: aztables.UpdateModeMerge}))
	_, err := table.UpdateEntity(w, entity("p", "r", map[string]any{"Count": int32(2)}), &aztables.UpdateEntityOptions{IfMatch: &made.ETag, UpdateMode: aztables.UpdateModeMerge})
	refused(err, 412, aztables.UpdateConditionNotSatisfied)
	_, err = table.DeleteEntity(w, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &made.ETag})
	refused(err, 412, aztables.UpdateConditionNotSatisfied)
	got(table.DeleteEntity(w, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &changed.ETag}))
	_, err = table.UpdateEntity(w, entity("p", "r", nil), &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	refused(err, 404, aztables.ResourceNotFound)
}

func entityPages(w world) {
	table := w.table("pages")
	for place := range 25 {
		got(table.AddEntity(w, entity(fmt.Sprint("p", place%2), fmt.Sprintf("%02d", place), map[string]any{"Number": int32(place)}), nil))
	}
	var rows []string
	pages := all(w, table.NewListEntitiesPager(&aztables.ListEntitiesOptions{
		Filter: to("PartitionKey eq 'p1' and Number gt 4"), Select: to("RowKey,Number"), Top: to(int32(4))}))
	for _, page := range pages {
		for _, text := range page.Entities {
			rows = append(rows, read(text).RowKey)
		}
	}
	same("pages", len(pages), 3)
	same("rows", rows, []string{"05", "07", "09", "11", "13", "15", "17", "19", "21", "23"})
	_, err := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to("Number gt")}).NextPage(w)
	refused(err, 400, aztables.InvalidInput)
}

func transactions(w world) {
	table := w.table("transactions")
	var steps []aztables.TransactionAction
	for place := range 100 {
		steps = append(steps, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: entity("p", fmt.Sprint(place), nil)})
	}
	got(table.SubmitTransaction(w, steps, nil))
	_, err := table.SubmitTransaction(w, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeInsertReplace, Entity: entity("p", "new", nil)},
		{ActionType: aztables.TransactionTypeAdd, Entity: entity("p", "0", nil)},
	}, nil)
	refused(err, 202, "") // all that the client says: the batch's own status
	_, err = table.GetEntity(w, "p", "new", nil)
	refused(err, 404, aztables.ResourceNotFound)
	got(table.SubmitTransaction(w, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeDelete, Entity: entity("p", "0", nil)},
		{ActionType: aztables.TransactionTypeUpdateMerge, Entity: entity("p", "1", map[string]any{"A": "b"})},
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: entity("p", "2", map[string]any{"A": "b"})},
	}, nil))
	same("merged", read(got(table.GetEntity(w, "p", "1", nil)).Value).Properties["A"], "b")
}

func tableSignatures(w world) {
	table := w.table("signed")
	until := time.Now().Add(time.Hour)
	got(table.SetAccessPolicy(w, &aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{
		{ID: to("readers"), AccessPolicy: &aztables.AccessPolicy{Start: to(time.Now().UTC().Truncate(time.Second)), Expiry: to(until.UTC().Truncate(time.Second)), Permission: to("r")}}}}))
	same("policies", *got(table.GetAccessPolicy(w, nil)).SignedIdentifiers[0].ID, "readers")
	// GetTableSASURL forgets the slash after an account in the path, and both want HTTPS.
	token := got(aztables.SASSignatureValues{Protocol: aztables.SASProtocolHTTPSandHTTP, TableName: "signed",
		Permissions: aztables.SASPermissions{Add: true}.String(), ExpiryTime: until.UTC()}.Sign(w.tableKey))
	adder := got(aztables.NewClientWithNoCredential(w.tableURL+"/signed?"+token, nil))
	got(adder.AddEntity(w, entity("p", "r", nil), nil))
	_, err := adder.GetEntity(w, "p", "r", nil)
	refused(err, 403, aztables.TableErrorCode("AuthorizationPermissionMismatch"))
	account := got(aztables.AccountSASSignatureValues{Version: aztables.SASVersion, Protocol: aztables.SASProtocolHTTPSandHTTP, Services: "t",
		ResourceTypes: aztables.AccountSASResourceTypes{Service: true, Container: true, Object: true}.String(),
		Permissions:   aztables.AccountSASPermissions{Read: true, List: true}.String(), ExpiryTime: until.UTC()}.Sign(w.tableKey))
	whole := got(aztables.NewServiceClientWithNoCredential(w.tableURL+"?"+account.Encode(), nil))
	got(whole.NewClient("signed").GetEntity(w, "p", "r", nil))
}

func tableService(w world) {
	for _, name := range []string{"ListedA", "ListedB", "ListedC"} {
		w.table(name)
	}
	var names []string
	for _, page := range all(w, w.tables.NewListTablesPager(&aztables.ListTablesOptions{
		Filter: to("TableName ge 'ListedA' and TableName lt 'ListedZ'"), Top: to(int32(2))})) {
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
	}
	slices.Sort(names)
	same("tables", names, []string{"ListedA", "ListedB", "ListedC"})
	_, err := w.tables.CreateTable(w, "listeda", nil)
	refused(err, 409, aztables.TableAlreadyExists)
	got(w.tables.SetProperties(w, aztables.ServiceProperties{Cors: []*aztables.CorsRule{
		{AllowedHeaders: to("x"), AllowedMethods: to("GET"), AllowedOrigins: to("http://a"), ExposedHeaders: to("y"), MaxAgeInSeconds: to(int32(5))}}}, nil))
	same("CORS", *got(w.tables.GetProperties(w, nil)).Cors[0].AllowedOrigins, "http://a")
	got(w.tables.DeleteTable(w, "ListedA", nil))
}

func run(one func(world), w world) (failure error) {
	defer func() {
		if found := recover(); found != nil {
			failure = fmt.Errorf("%v", found)
		}
	}()
	one(w)
	return nil
}

func main() {
	connection := os.Args[1]
	setting := func(name string) string {
		_, after, _ := strings.Cut(connection, name+"=")
		value, _, _ := strings.Cut(after, ";")
		return value
	}
	once := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	blobs := got(azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: once}))
	queues := got(azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: once}))
	tables := got(aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: once}))
	out := json.NewEncoder(os.Stdout)
	for _, scenario := range scenarios {
		limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		failure := run(scenario.run, world{
			limited, blobs.ServiceClient(), queues, tables,
			got(azqueue.NewSharedKeyCredential(setting("AccountName"), setting("AccountKey"))),
			got(aztables.NewSharedKeyCredential(setting("AccountName"), setting("AccountKey"))),
			setting("TableEndpoint"),
		})
		cancel()
		line := map[string]any{"name": scenario.name, "error": nil}
		if failure != nil {
			line["error"] = failure.Error()
		}
		must(out.Encode(line))
	}
}
