// Scenarios of azure-messaging-servicebus: each has a queue or topic of its own.  One JSON line for
// each, with what went wrong, on standard output.

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpClient;
import com.azure.core.http.HttpRequest;
import com.azure.core.util.IterableStream;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.MalformedURLException;
import java.net.URL;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

public final class Bus {
    interface Scenario {
        void run() throws Exception;
    }

    private static final Duration LONG = Duration.ofSeconds(20);
    private static final Duration SHORT = Duration.ofMillis(400);

    private final String connectionString;
    private final ServiceBusAdministrationClient administrator;

    private Bus(String connectionString, int port) {
        this.connectionString = connectionString;
        HttpClient http = HttpClient.createDefault();
        // This SDK forgets the port of the connection string when it administers.
        administrator =
                new ServiceBusAdministrationClientBuilder()
                        .connectionString(connectionString)
                        .httpClient(request -> http.send(toPort(request, port)))
                        .buildClient();
    }

    private static HttpRequest toPort(HttpRequest request, int port) {
        URL url = request.getUrl();
        try {
            return request.setUrl(new URL(url.getProtocol(), url.getHost(), port, url.getFile()));
        } catch (MalformedURLException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String connectionString = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        Map<String, Scenario> scenarios = new Bus(connectionString, port).scenarios();
        if (arguments.length > 2) {
            scenarios.keySet().retainAll(List.of(arguments).subList(2, arguments.length));
        }
        ExecutorService workers = Executors.newFixedThreadPool(6);
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
        all.put("sendAndReceive", this::sendAndReceive);
        all.put("batches", this::batches);
        all.put("settlements", this::settlements);
        all.put("receiveAndDelete", this::receiveAndDelete);
        all.put("deferred", this::deferred);
        all.put("aLockThatRanOut", this::aLockThatRanOut);
        all.put("peek", this::peek);
        all.put("scheduleAndCancel", this::scheduleAndCancel);
        all.put("namedSession", this::namedSession);
        all.put("nextSession", this::nextSession);
        all.put("processor", this::processor);
        all.put("sessionProcessor", this::sessionProcessor);
        all.put("asyncReceiver", this::asyncReceiver);
        all.put("ruleManager", this::ruleManager);
        all.put("transactions", this::transactions);
        all.put("crossEntityTransactions", this::crossEntityTransactions);
        all.put("administration", this::administration);
        all.put("refusals", this::refusals);
        return all;
    }

    // ---- what scenarios are made of

    private static void same(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + " is " + found + ", not " + wanted);
        }
    }

    private static ServiceBusException refused(ServiceBusFailureReason reason, Scenario scenario)
            throws Exception {
        try {
            scenario.run();
        } catch (ServiceBusException error) {
            same("reason", error.getReason(), reason);
            return error;
        }
        throw new AssertionError("not refused with " + reason);
    }

    private ServiceBusClientBuilder builder() {
        return new ServiceBusClientBuilder()
                .connectionString(connectionString)
                .retryOptions(
                        new AmqpRetryOptions()
                                .setMaxRetries(1)
                                .setDelay(Duration.ofMillis(200))
                                .setTryTimeout(Duration.ofSeconds(30)));
    }

    private String queue(String name, CreateQueueOptions options) {
        administrator.createQueue(name, options == null ? new CreateQueueOptions() : options);
        return name;
    }

    private ServiceBusSenderClient sender(String name) {
        return builder().sender().queueName(name).buildClient();
    }

    private ServiceBusReceiverClient receiver(String name) {
        return builder().receiver().queueName(name).disableAutoComplete().buildClient();
    }

    private ServiceBusReceiverClient deadLetters(String name) {
        return builder()
                .receiver()
                .queueName(name)
                .subQueue(SubQueue.DEAD_LETTER_QUEUE)
                .disableAutoComplete()
                .buildClient();
    }

    private static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body);
    }

    private static List<String> texts(Iterable<ServiceBusReceivedMessage> messages) {
        List<String> found = new ArrayList<>();
        for (ServiceBusReceivedMessage each : messages) {
            found.add(each.getBody().toString());
        }
        return found;
    }

    private static List<ServiceBusReceivedMessage> take(ServiceBusReceiverClient from, int count) {
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        while (all.size() < count) {
            IterableStream<ServiceBusReceivedMessage> some =
                    from.receiveMessages(count - all.size(), LONG);
            int before = all.size();
            some.forEach(all::add);
            if (all.size() == before) {
                throw new AssertionError("only " + texts(all));
            }
        }
        return all;
    }

    private static List<ServiceBusReceivedMessage> complete(
            ServiceBusReceiverClient from, int count) {
        List<ServiceBusReceivedMessage> all = take(from, count);
        all.forEach(from::complete);
        return all;
    }

    private static void nothing(ServiceBusReceiverClient from) {
        same("messages", texts(from.receiveMessages(1, SHORT)), List.of());
    }

    // ---- messages

    private void sendAndReceive() throws Exception {
        String queue = queue("plain", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue)) {
            ServiceBusMessage sent = message("body");
            sent.setMessageId("id");
            sent.setCorrelationId("other");
            sent.setSubject("subject");
            sent.setContentType("text/plain");
            sent.setReplyTo("back");
            sent.setTo("to");
            sent.setReplyToSessionId("session");
            sent.setPartitionKey("key");
            sent.setTimeToLive(Duration.ofMinutes(1));
            sent.getApplicationProperties().put("text", "a");
            sent.getApplicationProperties().put("number", 5L);
            sent.getApplicationProperties().put("flag", true);
            sender.sendMessage(sent);
            ServiceBusReceivedMessage found = take(receiver, 1).get(0);
            same("body", found.getBody().toString(), "body");
            same("message id", found.getMessageId(), "id");
            same("correlation id", found.getCorrelationId(), "other");
            same("subject", found.getSubject(), "subject");
            same("content type", found.getContentType(), "text/plain");
            same("reply to", found.getReplyTo(), "back");
            same("to", found.getTo(), "to");
            same("reply to session", found.getReplyToSessionId(), "session");
            same("partition key", found.getPartitionKey(), "key");
            same("time to live", found.getTimeToLive(), Duration.ofMinutes(1));
            same("properties", found.getApplicationProperties(),
                    Map.of("text", "a", "number", 5L, "flag", true));
            same("sequence number", found.getSequenceNumber(), 1L);
            same("enqueued number", found.getEnqueuedSequenceNumber(), 1L);
            same("delivery count", found.getDeliveryCount(), 0L);
            same("state", found.getState(), ServiceBusMessageState.ACTIVE);
            OffsetDateTime until = found.getLockedUntil();
            Thread.sleep(20);
            if (!receiver.renewMessageLock(found).isAfter(until)) {
                throw new AssertionError("the lock was not extended");
            }
            receiver.complete(found);
            nothing(receiver);
        }
    }

    private void batches() {
        String queue = queue("batched", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue)) {
            ServiceBusMessageBatch batch = sender.createMessageBatch();
            same("largest batch", batch.getMaxSizeInBytes(), 262144);
            List<String> wanted = new ArrayList<>();
            for (int n = 0; n < 30; n++) {
                wanted.add("message " + n);
                same("room", batch.tryAddMessage(message(wanted.get(n))), true);
            }
            same("room", batch.tryAddMessage(message("x".repeat(200_000))), true);
            wanted.add("x".repeat(200_000));
            same("room", batch.tryAddMessage(message("x".repeat(200_000))), false);
            sender.sendMessages(batch);
            sender.sendMessages(List.of(message("one more"), message("and one")));
            wanted.addAll(List.of("one more", "and one"));
            same("bodies", texts(complete(receiver, 33)), wanted);
        }
    }

    private void settlements() {
        String queue = queue("stubborn", new CreateQueueOptions().setMaxDeliveryCount(3));
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue);
                ServiceBusReceiverClient dead = deadLetters(queue)) {
            sender.sendMessage(message("stubborn"));
            for (long n = 0; n < 3; n++) {
                ServiceBusReceivedMessage found = take(receiver, 1).get(0);
                same("delivery count", found.getDeliveryCount(), n);
                receiver.abandon(found,
                        new AbandonOptions().setPropertiesToModify(Map.of("round", n)));
            }
            ServiceBusReceivedMessage found = complete(dead, 1).get(0);
            same("reason", found.getDeadLetterReason(), "MaxDeliveryCountExceeded");
            same("round", found.getApplicationProperties().get("round"), 1L);
            sender.sendMessage(message("bad"));
            receiver.deadLetter(take(receiver, 1).get(0),
                    new DeadLetterOptions()
                            .setDeadLetterReason("reason")
                            .setDeadLetterErrorDescription("description")
                            .setPropertiesToModify(Map.of("more", "property")));
            found = complete(dead, 1).get(0);
            same("body", found.getBody().toString(), "bad");
            same("reason", found.getDeadLetterReason(), "reason");
            same("description", found.getDeadLetterErrorDescription(), "description");
            same("property", found.getApplicationProperties().get("more"), "property");
            nothing(receiver);
        }
    }

    private void receiveAndDelete() {
        String queue = queue("deleting", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver =
                        builder()
                                .receiver()
                                .queueName(queue)
                                .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)
                                .buildClient()) {
            sender.sendMessages(List.of(message("a"), message("b")));
            same("bodies", texts(take(receiver, 2)), List.of("a", "b"));
            same("left", receiver.peekMessage(), null);
        }
    }

    private void deferred() throws Exception {
        String queue = queue("deferring", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue);
                ServiceBusReceiverClient dead = deadLetters(queue)) {
            sender.sendMessages(List.of(message("a"), message("b"), message("c"), message("d")));
            List<Long> numbers = new ArrayList<>();
            for (ServiceBusReceivedMessage each : take(receiver, 3)) {
                receiver.defer(each, new DeferOptions().setPropertiesToModify(Map.of("w", "y")));
                numbers.add(each.getSequenceNumber());
            }
            same("what is left", texts(complete(receiver, 1)), List.of("d"));
            List<ServiceBusReceivedMessage> found = new ArrayList<>();
            receiver.receiveDeferredMessageBatch(numbers).forEach(found::add);
            same("bodies", texts(found), List.of("a", "b", "c"));
            for (ServiceBusReceivedMessage each : found) {
                same("state", each.getState(), ServiceBusMessageState.DEFERRED);
                same("property", each.getApplicationProperties().get("w"), "y");
            }
            receiver.renewMessageLock(found.get(0));
            receiver.complete(found.get(0));
            receiver.deadLetter(found.get(1),
                    new DeadLetterOptions().setDeadLetterReason("deferred"));
            receiver.abandon(found.get(2));
            same("reason", complete(dead, 1).get(0).getDeadLetterReason(), "deferred");
            ServiceBusReceivedMessage again = receiver.receiveDeferredMessage(numbers.get(2));
            same("body", again.getBody().toString(), "c");
            receiver.complete(again);
            // This SDK takes the condition for an empty answer.
            refused(ServiceBusFailureReason.GENERAL_ERROR,
                    () -> receiver.receiveDeferredMessage(numbers.get(2)));
        }
    }

    private void aLockThatRanOut() throws Exception {
        CreateQueueOptions options =
                new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5));
        String queue = queue("lost", options);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver =
                        builder()
                                .receiver()
                                .queueName(queue)
                                .disableAutoComplete()
                                .maxAutoLockRenewDuration(Duration.ZERO)
                                .buildClient()) {
            sender.sendMessage(message("slow"));
            ServiceBusReceivedMessage found = take(receiver, 1).get(0);
            QueueProperties changed = administrator.getQueue(queue);
            administrator.updateQueue(changed.setMaxDeliveryCount(7));
            refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(found));
            refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST,
                    () -> receiver.renewMessageLock(found));
            ServiceBusReceivedMessage again = complete(receiver, 1).get(0);
            same("message id", again.getMessageId(), found.getMessageId());
        }
    }

    private void peek() {
        String queue = queue("peeked", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue)) {
            sender.sendMessages(List.of(message("1"), message("2"), message("3")));
            ServiceBusReceivedMessage locked = take(receiver, 1).get(0);
            same("bodies", texts(receiver.peekMessages(2)), List.of("1", "2"));
            same("bodies", texts(receiver.peekMessages(2)), List.of("3"));
            same("bodies", texts(receiver.peekMessages(5, 2)), List.of("2", "3"));
            receiver.complete(locked);
        }
    }

    private void scheduleAndCancel() {
        String queue = queue("scheduled", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue)) {
            OffsetDateTime far = OffsetDateTime.now().plusHours(1);
            List<Long> numbers = new ArrayList<>();
            sender.scheduleMessages(List.of(message("a"), message("b")), far)
                    .forEach(numbers::add);
            sender.cancelScheduledMessage(numbers.get(0));
            ServiceBusReceivedMessage left = receiver.peekMessage(0);
            same("body", left.getBody().toString(), "b");
            same("state", left.getState(), ServiceBusMessageState.SCHEDULED);
            OffsetDateTime soon = OffsetDateTime.now().plusSeconds(1);
            sender.scheduleMessage(message("soon"), soon);
            ServiceBusReceivedMessage found = complete(receiver, 1).get(0);
            same("body", found.getBody().toString(), "soon");
            if (found.getEnqueuedTime().isBefore(soon.minusNanos(1_000_000))) {
                throw new AssertionError("it came too early");
            }
            sender.cancelScheduledMessages(numbers.subList(1, 2));
            same("left", receiver.peekMessage(0), null);
        }
    }

    // ---- sessions

    private static ServiceBusMessage inSession(String body, String session) {
        return message(body).setSessionId(session);
    }

    private String sessionQueue(String name) {
        return queue(name, new CreateQueueOptions().setSessionRequired(true));
    }

    private void namedSession() throws Exception {
        String queue = sessionQueue("sessions");
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusSessionReceiverClient sessions =
                        builder()
                                .sessionReceiver()
                                .queueName(queue)
                                .disableAutoComplete()
                                .buildClient()) {
            for (String body : List.of("1", "2", "3")) {
                sender.sendMessage(inSession(body, "one"));
            }
            ServiceBusReceiverClient session = sessions.acceptSession("one");
            same("session id", session.getSessionId(), "one");
            same("state", session.getSessionState(), null);
            session.setSessionState("state".getBytes());
            OffsetDateTime before = session.renewSessionLock();
            Thread.sleep(20);
            if (!session.renewSessionLock().isAfter(before)) {
                throw new AssertionError("the session's lock was not extended");
            }
            ServiceBusReceivedMessage first = take(session, 1).get(0);
            session.defer(first);
            same("bodies", texts(complete(session, 2)), List.of("2", "3"));
            ServiceBusReceivedMessage aside =
                    session.receiveDeferredMessage(first.getSequenceNumber());
            session.complete(aside);
            try {
                acceptOne(queue);
                throw new AssertionError("accepted twice");
            } catch (AmqpException refusal) {
                same("transient", refusal.isTransient(), false);
                same("condition", refusal.getErrorCondition().getErrorCondition(),
                        "com.microsoft:session-cannot-be-locked");
            }
            session.close();
        }
        // On a connection of its own: the SDK names the link after the session, and may find the
        // one that it has just closed.
        acceptOne(queue);
    }

    private void acceptOne(String queue) {
        try (ServiceBusSessionReceiverClient sessions =
                builder().sessionReceiver().queueName(queue).disableAutoComplete().buildClient()) {
            ServiceBusReceiverClient session = sessions.acceptSession("one");
            same("state", new String(session.getSessionState()), "state");
            session.setSessionState(null);
            same("state", session.getSessionState(), null);
            session.close();
        }
    }

    private void nextSession() {
        String queue = sessionQueue("next-sessions");
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusSessionReceiverClient sessions =
                        builder()
                                .sessionReceiver()
                                .queueName(queue)
                                .disableAutoComplete()
                                .buildClient()) {
            for (String name : List.of("a", "b")) {
                sender.sendMessage(inSession(name, name));
            }
            for (String name : List.of("a", "b")) {
                ServiceBusReceiverClient session = sessions.acceptNextSession();
                same("session id", session.getSessionId(), name);
                same("bodies", texts(complete(session, 1)), List.of(name));
                session.close();
            }
        }
    }

    // ---- processors

    private void processor() throws Exception {
        String queue = queue("processed", null);
        Set<String> found = ConcurrentHashMap.newKeySet();
        AtomicInteger failures = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(20);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverClient receiver = receiver(queue)) {
            try (ServiceBusProcessorClient processor =
                    builder()
                            .processor()
                            .queueName(queue)
                            .maxConcurrentCalls(4)
                            .prefetchCount(5)
                            .processMessage(
                                    context -> {
                                        ServiceBusReceivedMessage each = context.getMessage();
                                        if (each.getBody().toString().equals("7")
                                                && each.getDeliveryCount() == 0) {
                                            throw new IllegalStateException("on purpose");
                                        }
                                        found.add(each.getBody().toString());
                                        all.countDown();
                                    })
                            .processError(error -> failures.incrementAndGet())
                            .buildProcessorClient()) {
                processor.start();
                for (int n = 0; n < 20; n++) {
                    sender.sendMessage(message(String.valueOf(n)));
                }
                same("done", all.await(20, TimeUnit.SECONDS), true);
                same("messages", found.size(), 20);
                same("failures", failures.get(), 1);
                ServiceBusReceivedMessage left = receiver.peekMessage(0);
                for (int n = 0; left != null && n < 50; n++) {
                    Thread.sleep(100); // completions come after the call, and not after a close
                    left = receiver.peekMessage(0);
                }
                same("left", left, null);
            }
        }
    }

    private void sessionProcessor() throws Exception {
        String queue = sessionQueue("processed-sessions");
        Map<String, List<String>> found = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(30);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusProcessorClient processor =
                        builder()
                                .sessionProcessor()
                                .queueName(queue)
                                .maxConcurrentSessions(2)
                                .sessionIdleTimeout(Duration.ofSeconds(1))
                                .processMessage(
                                        context -> {
                                            ServiceBusReceivedMessage each = context.getMessage();
                                            found.computeIfAbsent(
                                                            each.getSessionId(),
                                                            name -> new ArrayList<>())
                                                    .add(each.getBody().toString());
                                            all.countDown();
                                        })
                                .processError(error -> {})
                                .buildProcessorClient()) {
            List<String> wanted = new ArrayList<>();
            for (int n = 0; n < 10; n++) {
                wanted.add(String.valueOf(n));
                for (String session : List.of("x", "y", "z")) {
                    sender.sendMessage(inSession(String.valueOf(n), session));
                }
            }
            processor.start();
            same("done", all.await(40, TimeUnit.SECONDS), true);
            same("orders", found, Map.of("x", wanted, "y", wanted, "z", wanted));
        }
    }

    private void asyncReceiver() {
        String queue = queue("asynchronous", null);
        try (ServiceBusSenderClient sender = sender(queue);
                ServiceBusReceiverAsyncClient receiver =
                        builder()
                                .receiver()
                                .queueName(queue)
                                .disableAutoComplete()
                                .prefetchCount(10)
                                .buildAsyncClient()) {
            List<String> wanted = new ArrayList<>();
            for (int n = 0; n < 25; n++) {
                wanted.add(String.valueOf(n));
            }
            sender.sendMessages(wanted.stream().map(Bus::message).collect(Collectors.toList()));
            List<String> found =
                    receiver.receiveMessages()
                            .concatMap(
                                    each ->
                                            receiver.complete(each)
                                                    .thenReturn(each.getBody().toString()))
                            .take(25)
                            .collectList()
                            .block(LONG);
            same("bodies", found, wanted);
        }
    }

    // ---- topics

    private void ruleManager() {
        administrator.createTopic("ruled");
        administrator.createSubscription("ruled", "sub");
        ServiceBusRuleManagerClient rules =
                builder().ruleManager().topicName("ruled").subscriptionName("sub").buildClient();
        rules.deleteRule("$Default");
        rules.createRule("large",
                new CreateRuleOptions(new SqlRuleFilter("amount > 10"))
                        .setAction(new SqlRuleAction("SET sys.Label = 'large'")));
        CorrelationRuleFilter filter = new CorrelationRuleFilter().setLabel("wanted");
        filter.getProperties().put("k", "v");
        rules.createRule("same", new CreateRuleOptions(filter));
        Map<String, RuleProperties> found = new LinkedHashMap<>();
        rules.listRules().forEach(rule -> found.put(rule.getName(), rule));
        same("names", List.copyOf(found.keySet()), List.of("large", "same"));
        same("filter", ((SqlRuleFilter) found.get("large").getFilter()).getSqlExpression(),
                "amount > 10");
        same("label", ((CorrelationRuleFilter) found.get("same").getFilter()).getLabel(),
                "wanted");
        rules.close();
        ServiceBusMessage small = message("small");
        small.getApplicationProperties().put("amount", 5);
        ServiceBusMessage big = message("big");
        big.getApplicationProperties().put("amount", 50L);
        ServiceBusMessage wanted = message("wanted").setSubject("wanted");
        wanted.getApplicationProperties().put("k", "v");
        try (ServiceBusSenderClient sender =
                        builder().sender().topicName("ruled").buildClient();
                ServiceBusReceiverClient receiver =
                        builder()
                                .receiver()
                                .topicName("ruled")
                                .subscriptionName("sub")
                                .disableAutoComplete()
                                .buildClient()) {
            sender.sendMessages(List.of(small, big, wanted));
            List<ServiceBusReceivedMessage> messages = complete(receiver, 2);
            same("bodies", texts(messages), List.of("big", "wanted"));
            same("subject", messages.get(0).getSubject(), "large");
        }
    }

    // ---- transactions

    private void transactions() throws Exception {
        String queue = queue("transacted", null);
        ServiceBusClientBuilder shared = builder();
        try (ServiceBusSenderClient sender = shared.sender().queueName(queue).buildClient();
                ServiceBusReceiverClient receiver =
                        shared.receiver().queueName(queue).disableAutoComplete().buildClient()) {
            ServiceBusTransactionContext dropped = sender.createTransaction();
            sender.sendMessage(message("never"), dropped);
            sender.rollbackTransaction(dropped);
            ServiceBusTransactionContext kept = sender.createTransaction();
            sender.sendMessage(message("a"), kept);
            sender.sendMessages(List.of(message("b"), message("c")), kept);
            same("before", receiver.peekMessage(0), null);
            sender.commitTransaction(kept);
            List<ServiceBusReceivedMessage> found = take(receiver, 3);
            same("bodies", texts(found), List.of("a", "b", "c"));

            // What was completed in a transaction that came to nothing is still there, and locked.
            ServiceBusTransactionContext undone = receiver.createTransaction();
            receiver.complete(found.get(0), new CompleteOptions().setTransactionContext(undone));
            receiver.rollbackTransaction(undone);
            same("kept", receiver.peekMessage(0).getBody().toString(), "a");
            receiver.renewMessageLock(found.get(0));
            ServiceBusTransactionContext done = receiver.createTransaction();
            receiver.deadLetter(found.get(1),
                    new DeadLetterOptions().setTransactionContext(done));
            receiver.defer(found.get(2), new DeferOptions().setTransactionContext(done));
            receiver.commitTransaction(done);
            ServiceBusReceivedMessage aside =
                    receiver.receiveDeferredMessage(found.get(2).getSequenceNumber());
            receiver.complete(aside);
            same("left", texts(receiver.peekMessages(5, 0)), List.of("a"));
        }
        try (ServiceBusReceiverClient dead = deadLetters(queue)) {
            same("dead", texts(complete(dead, 1)), List.of("b"));
        }
    }

    private void crossEntityTransactions() throws Exception {
        String from = queue("crossed-from", null);
        String to = queue("crossed-to", null);
        try (ServiceBusSenderClient sender = sender(from)) {
            sender.sendMessages(List.of(message("1"), message("2")));
        }
        ServiceBusClientBuilder shared = builder().enableCrossEntityTransactions();
        try (ServiceBusReceiverClient receiver =
                        shared.receiver().queueName(from).disableAutoComplete().buildClient();
                ServiceBusSenderClient sender = shared.sender().queueName(to).buildClient();
                ServiceBusReceiverClient beyond = receiver(to)) {
            // The first operation decides which entity the others go through.
            List<ServiceBusReceivedMessage> found = take(receiver, 2);
            ServiceBusTransactionContext undone = receiver.createTransaction();
            receiver.complete(found.get(0), new CompleteOptions().setTransactionContext(undone));
            sender.sendMessage(message("never"), undone);
            receiver.rollbackTransaction(undone);
            ServiceBusTransactionContext done = receiver.createTransaction();
            receiver.complete(found.get(1), new CompleteOptions().setTransactionContext(done));
            sender.sendMessage(message("moved"), done);
            receiver.commitTransaction(done);
            same("moved", texts(complete(beyond, 1)), List.of("moved"));
            same("left", texts(receiver.peekMessages(5, 0)), List.of("1"));
        }
    }

    // ---- administration and refusals

    private void administration() throws Exception {
        CreateQueueOptions options =
                new CreateQueueOptions()
                        .setLockDuration(Duration.ofSeconds(30))
                        .setMaxDeliveryCount(4)
                        .setUserMetadata("<&>");
        QueueProperties made = administrator.createQueue("described", options);
        same("lock duration", made.getLockDuration(), Duration.ofSeconds(30));
        same("deliveries", made.getMaxDeliveryCount(), 4);
        same("metadata", made.getUserMetadata(), "<&>");
        made.setMaxDeliveryCount(6);
        same("deliveries", administrator.updateQueue(made).getMaxDeliveryCount(), 6);
        same("exists", administrator.getQueueExists("described"), true);
        same("exists", administrator.getQueueExists("no such queue"), false);
        try (ServiceBusSenderClient sender = sender("described")) {
            sender.sendMessage(message("counted"));
        }
        same("active",
                administrator.getQueueRuntimeProperties("described").getActiveMessageCount(), 1);
        try {
            administrator.createQueue("described");
            throw new AssertionError("made twice");
        } catch (ResourceExistsException expected) {
            same("status", expected.getResponse().getStatusCode(), 409);
        }
        administrator.createTopic("administered");
        administrator.createSubscription("administered", "sub",
                new CreateSubscriptionOptions().setForwardTo("described"));
        String target = administrator.getSubscription("administered", "sub").getForwardTo();
        same("forwards", target.endsWith("/described"), true);
        SqlRuleFilter filter = new SqlRuleFilter("a = @x");
        filter.getParameters().put("@x", "v");
        administrator.createRule("administered", "sql", "sub", new CreateRuleOptions(filter));
        List<String> names = new ArrayList<>();
        administrator.listRules("administered", "sub").forEach(rule -> names.add(rule.getName()));
        same("rules", names, List.of("$Default", "sql"));
        same("tier", administrator.getNamespaceProperties().getMessagingSku().toString(),
                "Standard");
        administrator.deleteQueue("described");
        try {
            administrator.getQueue("described");
            throw new AssertionError("not deleted");
        } catch (ResourceNotFoundException expected) {
            same("exists", administrator.getQueueExists("described"), false);
        }
    }

    private void refusals() throws Exception {
        try (ServiceBusSenderClient sender = sender("none")) {
            refused(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND,
                    () -> sender.sendMessage(message("lost")));
        }
        String queue = queue("refusing", null);
        try (ServiceBusSenderClient sender = sender(queue)) {
            ServiceBusException refusal =
                    refused(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED,
                            () -> sender.sendMessage(message("x".repeat(262144))));
            same("transient", refusal.isTransient(), false);
            QueueProperties disabled = administrator.getQueue(queue);
            disabled.setStatus(
                    com.azure.messaging.servicebus.administration.models.EntityStatus.DISABLED);
            administrator.updateQueue(disabled);
            refusal =
                    refused(ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED,
                            () -> sender.sendMessage(message("lost")));
            same("transient", refusal.isTransient(), false);
        }
        String wrong = connectionString.replace("SAS_KEY_VALUE", "OTHER");
        try (ServiceBusSenderClient sender =
                builder().connectionString(wrong).sender().queueName(queue).buildClient()) {
            refused(ServiceBusFailureReason.UNAUTHORIZED,
                    () -> sender.sendMessage(message("lost")));
        }
    }
}
