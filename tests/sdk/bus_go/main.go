// Scenarios of azservicebus: each has a queue or topic of its own.  One JSON line for each, with
// what went wrong, on standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/coder/websocket"
)

type world struct {
	context.Context
	client *sb.Client
	admin  *admin.Client
}

var scenarios = []struct {
	name string
	run  func(world)
}{
	{"send_and_receive", sendAndReceive},
	{"receive_with_drain", receiveWithDrain},
	{"batch", batch},
	{"settle_deferred", settleDeferred},
	{"abandon_and_dead_letter", abandonAndDeadLetter},
	{"sessions", sessions},
	{"next_session", nextSession},
	{"schedule_and_cancel", scheduleAndCancel},
	{"peek", peek},
	{"administration", administration},
	{"missing_queue", missingQueue},
	{"web_socket", webSocket},
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

func to[T any](value T) *T { return &value }

func (w world) queue(name string, properties *admin.QueueProperties) string {
	got(w.admin.CreateQueue(w, name, &admin.CreateQueueOptions{Properties: properties}))
	return name
}

func (w world) send(entity string, messages ...*sb.Message) {
	sender := got(w.client.NewSender(entity, nil))
	for _, message := range messages {
		must(sender.SendMessage(w, message, nil))
	}
	must(sender.Close(w))
}

func message(body string) *sb.Message { return &sb.Message{Body: []byte(body)} }

func texts(messages []*sb.ReceivedMessage) (found []string) {
	for _, each := range messages {
		found = append(found, string(each.Body))
	}
	return
}

type receiver interface {
	ReceiveMessages(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
	CompleteMessage(context.Context, *sb.ReceivedMessage, *sb.CompleteMessageOptions) error
}

// complete takes exactly so many messages, asking for more than there are.
func (w world) complete(from receiver, count int) (all []*sb.ReceivedMessage) {
	for len(all) < count {
		messages := got(from.ReceiveMessages(w, 10, nil))
		for _, each := range messages {
			must(from.CompleteMessage(w, each, nil))
		}
		all = append(all, messages...)
	}
	return
}

func (w world) nothing(from receiver) {
	short, cancel := context.WithTimeout(w, 300*time.Millisecond)
	defer cancel()
	messages, err := from.ReceiveMessages(short, 5, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		panic(fmt.Errorf("%d messages and %v where there should be none", len(messages), err))
	}
}

func refused(err error, code sb.Code) {
	var refusal *sb.Error
	if !errors.As(err, &refusal) || refusal.Code != code {
		panic(fmt.Errorf("not %s: %w", code, err))
	}
}

func sendAndReceive(w world) {
	queue := w.queue("plain", nil)
	w.send(queue, &sb.Message{
		Body: []byte("body"), MessageID: to("id"), CorrelationID: to("other"), Subject: to("subject"),
		ContentType: to("text/plain"), ReplyTo: to("back"), TimeToLive: to(time.Minute),
		ApplicationProperties: map[string]any{"text": "a", "number": int64(5), "flag": true},
	})
	from := got(w.client.NewReceiverForQueue(queue, nil))
	messages := got(from.ReceiveMessages(w, 1, nil))
	found := messages[0]
	same("body", string(found.Body), "body")
	same("message id", found.MessageID, "id")
	same("correlation id", *found.CorrelationID, "other")
	same("subject", *found.Subject, "subject")
	same("content type", *found.ContentType, "text/plain")
	same("time to live", *found.TimeToLive, time.Minute)
	same("properties", found.ApplicationProperties,
		map[string]any{"text": "a", "number": int64(5), "flag": true})
	same("sequence number", *found.SequenceNumber, int64(1))
	until := *found.LockedUntil
	time.Sleep(20 * time.Millisecond)
	must(from.RenewMessageLock(w, found, nil))
	if !found.LockedUntil.After(until) {
		panic("the lock was not extended")
	}
	must(from.CompleteMessage(w, found, nil))
	w.nothing(from)
}

// The SDK asks for more than there is, and drains the rest of its credit with every receive.
func receiveWithDrain(w world) {
	queue := w.queue("drained", nil)
	from := got(w.client.NewReceiverForQueue(queue, nil))
	for round := 0; round < 5; round++ {
		first, second := fmt.Sprint(round, "a"), fmt.Sprint(round, "b")
		w.send(queue, message(first), message(second))
		messages := w.complete(from, 2)
		// What comes between two receives is released by the SDK, and so may come after the next.
		found := texts(messages)
		slices.Sort(found)
		same("bodies", found, []string{first, second})
		for _, each := range messages {
			same("delivery count", each.DeliveryCount, uint32(1))
		}
	}
	w.nothing(from)
	other := got(w.client.NewReceiverForQueue(queue, nil))
	w.send(queue, message("for the other"))
	same("bodies", texts(w.complete(other, 1)), []string{"for the other"})
}

func batch(w world) {
	queue := w.queue("batched", nil)
	sender := got(w.client.NewSender(queue, nil))
	messages := got(sender.NewMessageBatch(w, nil))
	var wanted []string
	for n := 0; n < 30; n++ {
		wanted = append(wanted, fmt.Sprint("message ", n))
		must(messages.AddMessage(message(wanted[n]), nil))
	}
	if err := messages.AddMessage(message(strings.Repeat("x", 262144)), nil); err == nil {
		panic("a batch takes more than it may")
	}
	must(sender.SendMessageBatch(w, messages, nil))
	from := got(w.client.NewReceiverForQueue(queue, nil))
	same("bodies", texts(w.complete(from, 30)), wanted)
}

func settleDeferred(w world) {
	queue := w.queue("deferring", nil)
	w.send(queue, message("completed"), message("abandoned"), message("dead"))
	from := got(w.client.NewReceiverForQueue(queue, nil))
	var numbers []int64
	for len(numbers) < 3 {
		for _, each := range got(from.ReceiveMessages(w, 3, nil)) {
			must(from.DeferMessage(w, each, nil))
			numbers = append(numbers, *each.SequenceNumber)
		}
	}
	w.nothing(from)
	deferred := got(from.ReceiveDeferredMessages(w, numbers, nil))
	same("bodies", texts(deferred), []string{"completed", "abandoned", "dead"})
	must(from.RenewMessageLock(w, deferred[0], nil))
	must(from.CompleteMessage(w, deferred[0], nil))
	must(from.AbandonMessage(w, deferred[1], nil))
	must(from.DeadLetterMessage(w, deferred[2], &sb.DeadLetterOptions{Reason: to("reason")}))
	if _, err := from.ReceiveDeferredMessages(w, numbers[:1], nil); err == nil {
		panic("a deferred message that was completed came again")
	}
	dead := got(w.client.NewReceiverForQueue(queue, &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}))
	found := w.complete(dead, 1)
	same("reason", *found[0].DeadLetterReason, "reason")
	again := got(from.ReceiveDeferredMessages(w, numbers[1:2], nil))
	must(from.CompleteMessage(w, again[0], nil))
}

func abandonAndDeadLetter(w world) {
	queue := w.queue("stubborn", &admin.QueueProperties{MaxDeliveryCount: to(int32(2))})
	w.send(queue, message("stubborn"))
	from := got(w.client.NewReceiverForQueue(queue, nil))
	for n := uint32(1); n <= 2; n++ {
		messages := got(from.ReceiveMessages(w, 1, nil))
		same("delivery count", messages[0].DeliveryCount, n)
		must(from.AbandonMessage(w, messages[0], nil))
	}
	dead := got(w.client.NewReceiverForQueue(queue, &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}))
	messages := w.complete(dead, 1)
	same("reason", *messages[0].DeadLetterReason, "MaxDeliveryCountExceeded")
}

func sessions(w world) {
	queue := w.queue("sessions", &admin.QueueProperties{RequiresSession: to(true)})
	for _, body := range []string{"1", "2", "3"} {
		w.send(queue, &sb.Message{Body: []byte(body), SessionID: to("one")})
	}
	session := got(w.client.AcceptSessionForQueue(w, queue, "one", nil))
	same("session id", session.SessionID(), "one")
	must(session.SetSessionState(w, []byte("state"), nil))
	same("state", string(got(session.GetSessionState(w, nil))), "state")
	until := session.LockedUntil()
	time.Sleep(20 * time.Millisecond)
	must(session.RenewSessionLock(w, nil))
	if !session.LockedUntil().After(until) {
		panic("the session's lock was not extended")
	}
	same("bodies", texts(w.complete(session, 3)), []string{"1", "2", "3"})
	must(session.Close(w))
	again := got(w.client.AcceptSessionForQueue(w, queue, "one", nil))
	same("state", string(got(again.GetSessionState(w, nil))), "state")
	must(again.Close(w))
}

func nextSession(w world) {
	queue := w.queue("next-sessions", &admin.QueueProperties{RequiresSession: to(true)})
	for _, name := range []string{"a", "b"} {
		w.send(queue, &sb.Message{Body: []byte(name), SessionID: &name})
	}
	for _, name := range []string{"a", "b"} {
		session := got(w.client.AcceptNextSessionForQueue(w, queue, nil))
		same("session id", session.SessionID(), name)
		same("bodies", texts(w.complete(session, 1)), []string{name})
		must(session.Close(w))
	}
}

func scheduleAndCancel(w world) {
	queue := w.queue("scheduled", nil)
	sender := got(w.client.NewSender(queue, nil))
	far := time.Now().Add(time.Hour)
	numbers := got(sender.ScheduleMessages(w, []*sb.Message{message("a"), message("b")}, far, nil))
	from := got(w.client.NewReceiverForQueue(queue, nil))
	same("bodies", texts(got(from.PeekMessages(w, 5, nil))), []string{"a", "b"})
	must(sender.CancelScheduledMessages(w, numbers[:1], nil))
	first := int64(0)
	left := got(from.PeekMessages(w, 5, &sb.PeekMessagesOptions{FromSequenceNumber: &first}))
	same("bodies", texts(left), []string{"b"})
	same("state", left[0].State, sb.MessageStateScheduled)
	soon := time.Now().Add(time.Second)
	got(sender.ScheduleMessages(w, []*sb.Message{message("soon")}, soon, nil))
	same("bodies", texts(w.complete(from, 1)), []string{"soon"})
	if time.Now().Before(soon) {
		panic("it came too early")
	}
}

func peek(w world) {
	queue := w.queue("peeked", nil)
	w.send(queue, message("1"), message("2"), message("3"))
	from := got(w.client.NewReceiverForQueue(queue, nil))
	same("bodies", texts(got(from.PeekMessages(w, 2, nil))), []string{"1", "2"})
	same("bodies", texts(got(from.PeekMessages(w, 2, nil))), []string{"3"})
}

func administration(w world) {
	queue := w.queue("described", &admin.QueueProperties{LockDuration: to("PT30S")})
	described := got(w.admin.GetQueue(w, queue, nil))
	same("lock duration", *described.LockDuration, "PT30S")
	described.UserMetadata = to("<&>")
	updated := got(w.admin.UpdateQueue(w, queue, described.QueueProperties, nil))
	same("metadata", *updated.UserMetadata, "<&>")
	w.send(queue, message("counted"))
	counts := got(w.admin.GetQueueRuntimeProperties(w, queue, nil))
	same("active messages", counts.ActiveMessageCount, int32(1))
	got(w.admin.CreateTopic(w, "topic", nil))
	got(w.admin.CreateSubscription(w, "topic", "sub", nil))
	got(w.admin.CreateRule(w, "topic", "sub", &admin.CreateRuleOptions{
		Name: to("sql"), Filter: &admin.SQLFilter{Expression: "a = @x", Parameters: map[string]any{"@x": "v"}},
	}))
	var names []string
	for pager := w.admin.NewListRulesPager("topic", "sub", nil); pager.More(); {
		for _, rule := range got(pager.NextPage(w)).Rules {
			names = append(names, rule.Name)
		}
	}
	same("rules", names, []string{"$Default", "sql"})
	w.send("topic", message("published"))
	from := got(w.client.NewReceiverForSubscription("topic", "sub", nil))
	same("bodies", texts(w.complete(from, 1)), []string{"published"})
	got(w.admin.DeleteQueue(w, queue, nil))
	if gone := got(w.admin.GetQueue(w, queue, nil)); gone != nil {
		panic("the queue was not deleted")
	}
}

func missingQueue(w world) {
	sender := got(w.client.NewSender("none", nil))
	refused(sender.SendMessage(w, message("lost"), nil), sb.CodeNotFound)
}

func dial(context context.Context, to sb.NewWebSocketConnArgs) (net.Conn, error) {
	url := strings.Replace(to.Host, "wss://", "ws://", 1)
	options := &websocket.DialOptions{Subprotocols: []string{"AMQPWSB10"}}
	socket, _, err := websocket.Dial(context, url, options)
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context, socket, websocket.MessageBinary), nil
}

func webSocket(w world) {
	queue := w.queue("socketed", nil)
	options := &sb.ClientOptions{
		NewWebSocketConn: dial, RetryOptions: sb.RetryOptions{MaxRetries: 1},
	}
	client := got(sb.NewClientFromConnectionString(os.Args[1], options))
	over := world{w.Context, client, w.admin}
	over.send(queue, message("over a web socket"), message("x"+strings.Repeat("y", 200000)))
	from := got(client.NewReceiverForQueue(queue, nil))
	found := over.complete(from, 2)
	same("body", string(found[0].Body), "over a web socket")
	same("length", len(found[1].Body), 200001)
	must(client.Close(w))
}

func attempt(run func(world), w world) (failure error) {
	defer func() {
		if raised := recover(); raised != nil {
			failure = fmt.Errorf("%v", raised)
		}
	}()
	run(w)
	return nil
}

func main() {
	connectionString := os.Args[1]
	options := &sb.ClientOptions{RetryOptions: sb.RetryOptions{MaxRetries: 1}}
	client := got(sb.NewClientFromConnectionString(connectionString, options))
	administrator := got(admin.NewClientFromConnectionString(connectionString, nil))
	chosen := os.Args[2:]
	for _, scenario := range scenarios {
		if len(chosen) > 0 && !slices.Contains(chosen, scenario.name) {
			continue
		}
		limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		failure := attempt(scenario.run, world{limited, client, administrator})
		cancel()
		line := map[string]any{"name": scenario.name, "error": nil}
		if failure != nil {
			line["error"] = failure.Error()
		}
		must(json.NewEncoder(os.Stdout).Encode(line))
	}
	must(client.Close(context.Background()))
}
