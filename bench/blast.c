/* An AMQP 1.0 load client that costs little: senders with a window of unsettled transfers, receivers
 * that accept every delivery, all on one epoll loop over loopback.
 *
 *   blast HOST PORT pass SEND_TO RECEIVE_FROM COUNT SENDERS RECEIVERS [name=value ...]
 *   blast HOST PORT idle - RECEIVE_FROM 0 0 RECEIVERS        until standard input ends
 *
 * Options: user= password= (SASL PLAIN; without them ANONYMOUS) body=1024 window=500 credit=500
 * seconds=120.  One JSON object on standard output; anything unexpected ends it with status 2.
 *
 * It reads only what it needs of the frames: performatives are lists whose fields are skipped by
 * the width that their type byte tells (AMQP 1.0 part 1, section 1.2).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum performative {
    op_open = 0x10, op_begin, op_attach, op_flow, op_transfer, op_disposition, op_detach, op_end,
    op_close, op_source = 0x28, op_target = 0x29, op_accepted = 0x24, op_sasl_init = 0x41,
    op_sasl_outcome = 0x44
};
enum { fields_max = 16, read_bytes = 1 << 18, queued_bytes_max = 1 << 17, frame_bytes_max = 65536 };

struct options {
    const char *user, *password;
    uint32_t body_bytes, window, credit;
    double seconds;
};

struct bytes {
    uint8_t *at;
    size_t begin, end, room;
};

struct connection {
    int socket;
    bool sends, wants_write, delivering;
    struct bytes in, out;
    uint32_t delivery_count, credit, peer_window, transfers_out, transfers_in, since_flow;
    uint32_t current_delivery;
    uint64_t sent, answered;
};

static struct options options = {NULL, "", 1024, 500, 500, 120};
static uint64_t count, handed_out, accepted, refused, received, redelivered;
static double first_sent, first_received, last_accepted, last_received;

static void fail(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vfprintf(stderr, format, rest);
    va_end(rest);
    fputc('\n', stderr);
    exit(2);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

/* ---- bytes to send ---- */

static uint8_t *reserve(struct bytes *buffer, size_t size) {
    if (buffer->end + size > buffer->room) {
        memmove(buffer->at, buffer->at + buffer->begin, buffer->end - buffer->begin);
        buffer->end -= buffer->begin;
        buffer->begin = 0;
        if (buffer->end + size > buffer->room) {
            buffer->room = 2 * (buffer->end + size);
            buffer->at = realloc(buffer->at, buffer->room);
            if (buffer->at == NULL) fail("out of memory");
        }
    }
    return buffer->at + buffer->end;
}

static void append(struct bytes *buffer, const void *from, size_t size) {
    memcpy(reserve(buffer, size), from, size);
    buffer->end += size;
}

/* A described list being written: list32, so that its size can be filled in at the end. */
struct list {
    uint8_t at[1024];
    uint32_t size, items;
};

static struct list begin_list(enum performative descriptor) {
    struct list list = {{0x00, 0x53, (uint8_t)descriptor, 0xd0}, 12, 0};
    return list;
}

static void add_raw(struct list *list, const void *from, size_t size) {
    memcpy(list->at + list->size, from, size);
    list->size += (uint32_t)size;
    list->items++;
}

static void add_byte(struct list *list, uint8_t type) { add_raw(list, &type, 1); }
static void add_null(struct list *list) { add_byte(list, 0x40); }
static void add_bool(struct list *list, bool value) { add_byte(list, value ? 0x41 : 0x42); }

static void add_ubyte(struct list *list, uint8_t value) {
    add_raw(list, (uint8_t[]){0x50, value}, 2);
}

static void add_uint(struct list *list, uint32_t value) {
    uint8_t item[5] = {0x70};
    write_u32(item + 1, value);
    add_raw(list, item, sizeof item);
}

static void add_text(struct list *list, uint8_t type, const void *text, size_t size) {
    uint8_t item[2 + 255] = {type, (uint8_t)size};
    if (size > 255) fail("too long: %zu bytes", size);
    memcpy(item + 2, text, size);
    add_raw(list, item, 2 + size);
}

static void end_list(struct list *list) {
    write_u32(list->at + 4, list->size - 8);
    write_u32(list->at + 8, list->items);
}

static void send_list(struct connection *to, uint8_t frame_type, struct list *list) {
    uint8_t head[8] = {0, 0, 0, 0, 2, frame_type, 0, 0};
    end_list(list);
    write_u32(head, 8 + list->size);
    append(&to->out, head, sizeof head);
    append(&to->out, list->at, list->size);
}

static void add_terminus(struct list *list, enum performative kind, const char *address) {
    struct list terminus = begin_list(kind);
    if (address != NULL) {
        add_text(&terminus, 0xa1, address, strlen(address));
        add_uint(&terminus, 2); /* unsettled-state: as durable as the messages are */
    }
    end_list(&terminus);
    add_raw(list, terminus.at, terminus.size);
}

static void flush(struct connection *from) {
    struct bytes *out = &from->out;
    while (out->begin < out->end) {
        ssize_t done = write(from->socket, out->at + out->begin, out->end - out->begin);
        if (done < 0 && errno == EAGAIN) return;
        if (done < 0) fail("write: %s", strerror(errno));
        out->begin += (size_t)done;
    }
    out->begin = out->end = 0;
}

/* ---- bytes received ---- */

static const uint8_t *after_value(const uint8_t *at) {
    uint8_t type = *at++;
    if (type == 0) return after_value(after_value(at));
    switch (type >> 4) {
    case 0x4: return at;
    case 0x5: return at + 1;
    case 0x6: return at + 2;
    case 0x7: return at + 4;
    case 0x8: return at + 8;
    case 0x9: return at + 16;
    case 0xa: case 0xc: case 0xe: return at + 1 + at[0];
    case 0xb: case 0xd: case 0xf: return at + 4 + read_u32(at);
    default: fail("no AMQP type: 0x%02x", type); return NULL;
    }
}

static uint32_t as_uint(const uint8_t *at, uint32_t otherwise) {
    switch (*at) {
    case 0x40: return otherwise;
    case 0x43: return 0;
    case 0x52: return at[1];
    case 0x70: return read_u32(at + 1);
    default: fail("no uint: 0x%02x", *at); return 0;
    }
}

static bool as_bool(const uint8_t *at) { return *at == 0x41 || (*at == 0x56 && at[1] == 1); }

/* The descriptor of a described type with a number for a name. */
static const uint8_t *after_descriptor(const uint8_t *at, uint32_t *code) {
    if (at[0] != 0) fail("a performative without a descriptor");
    if (at[1] == 0x53) {
        *code = at[2];
        return at + 3;
    }
    if (at[1] == 0x80) {
        *code = at[9];
        return at + 10;
    }
    fail("an unknown descriptor: 0x%02x", at[1]);
    return NULL;
}

struct performative_read {
    uint32_t code;
    const uint8_t *fields[fields_max];
    const uint8_t *end;
};

static const uint8_t null_value[] = {0x40};

static struct performative_read read_performative(const uint8_t *at) {
    struct performative_read result;
    uint32_t items = 0;
    at = after_descriptor(at, &result.code);
    result.end = after_value(at);
    switch (*at) {
    case 0x45: at += 1; break;
    case 0xc0: items = at[2]; at += 3; break;
    case 0xd0: items = read_u32(at + 5); at += 9; break;
    default: fail("a performative that is no list: 0x%02x", *at);
    }
    for (uint32_t n = 0; n < fields_max; n++) {
        result.fields[n] = n < items ? at : null_value;
        if (n < items) at = after_value(at);
    }
    return result;
}

/* ---- the two kinds of links ---- */

static void send_credit(struct connection *to) {
    struct list flow = begin_list(op_flow);
    add_uint(&flow, to->transfers_in);
    add_uint(&flow, 0x7fffffff);
    add_uint(&flow, 0);
    add_uint(&flow, 0x7fffffff);
    add_uint(&flow, 0);
    add_uint(&flow, to->delivery_count);
    add_uint(&flow, options.credit);
    send_list(to, 0, &flow);
    to->since_flow = 0;
}

static void accept_delivery(struct connection *to, uint32_t number) {
    struct list disposition = begin_list(op_disposition);
    add_bool(&disposition, true); /* as the receiver */
    add_uint(&disposition, number);
    add_uint(&disposition, number);
    add_bool(&disposition, true);
    add_raw(&disposition, (uint8_t[]){0x00, 0x53, op_accepted, 0x45}, 4);
    send_list(to, 0, &disposition);
}

static void delivered(struct connection *at, const struct performative_read *transfer,
                      const uint8_t *end) {
    bool more = as_bool(transfer->fields[5]);
    at->transfers_in++;
    if (!at->delivering) at->current_delivery = as_uint(transfer->fields[1], 0);
    if (!at->delivering && end - transfer->end > 8) {
        /* header: durable, priority, ttl, first-acquirer, delivery-count */
        uint32_t code;
        after_descriptor(transfer->end, &code);
        if (code == 0x70) {
            struct performative_read header = read_performative(transfer->end);
            if (as_uint(header.fields[4], 0) > 0) redelivered++;
        }
    }
    at->delivering = more;
    if (more) return;
    if (received++ == 0) first_received = seconds_now();
    at->delivery_count++;
    if (!as_bool(transfer->fields[4])) accept_delivery(at, at->current_delivery);
    if (++at->since_flow >= (options.credit + 1) / 2) send_credit(at);
    if (received == count) last_received = seconds_now();
}

static void answered(struct connection *at, const struct performative_read *disposition) {
    uint32_t first = as_uint(disposition->fields[1], 0);
    uint32_t messages = as_uint(disposition->fields[2], first) - first + 1;
    uint32_t outcome = 0;
    if (!at->sends) return;
    if (*disposition->fields[4] == 0) after_descriptor(disposition->fields[4], &outcome);
    at->answered += messages;
    if (outcome == op_accepted) accepted += messages;
    else refused += messages;
    if (accepted + refused == count) last_accepted = seconds_now();
}

static uint8_t *transfer;
static size_t transfer_bytes;
enum { number_at = 16, tag_at = 22, id_digits = 16 };
static size_t id_at;

/* One transfer with a durable message: header, message-id and body; numbers are filled in later. */
static void make_transfer(void) {
    static const uint8_t head[] = {
        0, 0, 0, 0, 2, 0, 0, 0,                        /* frame */
        0x00, 0x53, op_transfer, 0xc0, 17, 5, 0x43,    /* handle 0 */
        0x70, 0, 0, 0, 0,                              /* delivery-id */
        0xa0, 4, 0, 0, 0, 0,                           /* delivery-tag */
        0x43, 0x42,                                    /* message-format 0, not settled */
        0x00, 0x53, 0x70, 0xc0, 2, 1, 0x41,            /* header: durable */
        0x00, 0x53, 0x73, 0xc0, id_digits + 3, 1, 0xa1, id_digits
    };
    size_t size = sizeof head;
    transfer = malloc(size + id_digits + 8 + options.body_bytes);
    memcpy(transfer, head, size);
    transfer[12] = 1 + 1 + 5 + 6 + 1 + 1;
    id_at = size;
    size += id_digits;
    memcpy(transfer + size, (uint8_t[]){0x00, 0x53, 0x75, 0xb0}, 4);
    write_u32(transfer + size + 4, options.body_bytes);
    size += 8;
    for (uint32_t n = 0; n < options.body_bytes; n++) transfer[size++] = (uint8_t)('a' + n % 26);
    write_u32(transfer, (uint32_t)size);
    transfer_bytes = size;
}

static void send_what_may_be(struct connection *to) {
    while (handed_out < count && to->credit > 0 && to->peer_window > 0 &&
           to->sent - to->answered < options.window &&
           to->out.end - to->out.begin < queued_bytes_max) {
        char digits[id_digits + 1];
        if (handed_out == 0) first_sent = seconds_now();
        snprintf(digits, sizeof digits, "%016" PRIx64, handed_out);
        memcpy(transfer + id_at, digits, id_digits);
        write_u32(transfer + number_at, to->transfers_out);
        write_u32(transfer + tag_at, to->transfers_out);
        append(&to->out, transfer, transfer_bytes);
        handed_out++;
        to->sent++;
        to->transfers_out++;
        to->delivery_count++;
        to->credit--;
        to->peer_window--;
    }
}

static void take_flow(struct connection *at, const struct performative_read *flow) {
    at->peer_window = as_uint(flow->fields[0], 0) + as_uint(flow->fields[1], 0) - at->transfers_out;
    if (at->sends && *flow->fields[4] != 0x40) {
        uint32_t limit = as_uint(flow->fields[5], 0) + as_uint(flow->fields[6], 0);
        int32_t left = (int32_t)(limit - at->delivery_count);
        at->credit = left > 0 ? (uint32_t)left : 0;
    }
    if (as_bool(flow->fields[9]) && !at->sends) send_credit(at); /* echo */
}

static void take_frame(struct connection *at, const uint8_t *frame, uint32_t size) {
    struct performative_read got;
    if (size <= 8) return;
    got = read_performative(frame + 4 * frame[4]);
    switch (got.code) {
    case op_open: break;
    case op_begin: at->peer_window = as_uint(got.fields[2], 0); break;
    case op_attach:
        if (!at->sends) {
            at->delivery_count = as_uint(got.fields[9], 0);
            send_credit(at);
        }
        break;
    case op_flow: take_flow(at, &got); break;
    case op_transfer: delivered(at, &got, frame + size); break;
    case op_disposition: answered(at, &got); break;
    default:
        fprintf(stderr, "performative 0x%02x: ", got.code);
        for (const uint8_t *c = frame + 8; c < frame + size; c++)
            if (*c >= 32 && *c < 127) fputc(*c, stderr);
        fail(" (%s)", at->sends ? "sender" : "receiver");
    }
}

static void take_bytes(struct connection *from) {
    struct bytes *in = &from->in;
    for (;;) {
        ssize_t got = read(from->socket, reserve(in, read_bytes), read_bytes);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) fail("%s: %s", from->sends ? "sender" : "receiver",
                           got ? strerror(errno) : "the server closed the connection");
        in->end += (size_t)got;
        while (in->end - in->begin >= 4) {
            uint32_t size = read_u32(in->at + in->begin);
            if (in->end - in->begin < size) break;
            take_frame(from, in->at + in->begin, size);
            in->begin += size;
        }
        if (in->begin == in->end) in->begin = in->end = 0;
        if (got < read_bytes) return;
    }
}

/* ---- connecting, on a blocking socket ---- */

static void read_exactly(int socket, uint8_t *to, size_t size) {
    while (size > 0) {
        ssize_t got = read(socket, to, size);
        if (got <= 0) fail("the server closed the connection during the handshake");
        to += got;
        size -= (size_t)got;
    }
}

static void expect_header(struct connection *at, const char *header) {
    uint8_t got[8];
    append(&at->out, header, 8);
    flush(at);
    read_exactly(at->socket, got, 8);
    if (memcmp(got, header, 8) != 0) fail("another protocol header: %.4s %d", got, got[4]);
}

static uint32_t read_frame(int socket, uint8_t *to, size_t room) {
    uint32_t size;
    read_exactly(socket, to, 4);
    size = read_u32(to);
    if (size < 8 || size > room) fail("a handshake frame of %u bytes", size);
    read_exactly(socket, to + 4, size - 4);
    return size;
}

static void log_in(struct connection *at) {
    uint8_t frame[4096];
    struct list init = begin_list(op_sasl_init);
    struct performative_read outcome;
    expect_header(at, "AMQP\3\1\0\0");
    read_frame(at->socket, frame, sizeof frame);
    if (options.user != NULL) {
        char response[256] = "";
        int size = snprintf(response, sizeof response, "%c%s%c%s", 0, options.user, 0,
                            options.password);
        add_text(&init, 0xa3, "PLAIN", 5);
        add_text(&init, 0xa0, response, (size_t)size);
    } else {
        add_text(&init, 0xa3, "ANONYMOUS", 9);
    }
    send_list(at, 1, &init);
    flush(at);
    read_frame(at->socket, frame, sizeof frame);
    outcome = read_performative(frame + 4 * frame[4]);
    if (outcome.code != op_sasl_outcome || outcome.fields[0][1] != 0) fail("the login was refused");
}

static void attach(struct connection *at, const char *name, const char *address) {
    struct list list = begin_list(op_attach);
    add_text(&list, 0xa1, name, strlen(name));
    add_uint(&list, 0);
    add_bool(&list, !at->sends);
    add_ubyte(&list, 0); /* unsettled */
    add_ubyte(&list, 0); /* the receiver settles first */
    add_terminus(&list, op_source, at->sends ? NULL : address);
    add_terminus(&list, op_target, at->sends ? address : NULL);
    add_null(&list);
    add_bool(&list, false);
    if (at->sends) add_uint(&list, 0);
    send_list(at, 0, &list);
}

static void connect_link(struct connection *at, const struct sockaddr_in *server, bool sends,
                         const char *address, int number) {
    char name[32];
    int on = 1;
    struct list open = begin_list(op_open), begin = begin_list(op_begin);
    memset(at, 0, sizeof *at);
    at->sends = sends;
    at->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(at->socket, (const struct sockaddr *)server, sizeof *server) < 0)
        fail("connect: %s", strerror(errno));
    setsockopt(at->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    log_in(at);
    expect_header(at, "AMQP\0\1\0\0");
    snprintf(name, sizeof name, "blast-%s-%d", sends ? "sender" : "receiver", number);
    add_text(&open, 0xa1, name, strlen(name));
    add_text(&open, 0xa1, "localhost", 9);
    add_uint(&open, frame_bytes_max);
    send_list(at, 0, &open);
    add_null(&begin);
    add_uint(&begin, 0);
    add_uint(&begin, 0x7fffffff);
    add_uint(&begin, 0x7fffffff);
    send_list(at, 0, &begin);
    attach(at, name, address);
    flush(at);
    fcntl(at->socket, F_SETFL, O_NONBLOCK);
}

/* ---- the loop ---- */

static void turn(int poller, int timeout_milliseconds) {
    struct epoll_event events[64];
    int ready = epoll_wait(poller, events, 64, timeout_milliseconds);
    for (int n = 0; n < ready; n++) {
        struct connection *at = events[n].data.ptr;
        bool waits;
        if (at == NULL) { /* standard input */
            char ignored;
            if (read(0, &ignored, 1) <= 0) exit(0);
            continue;
        }
        if (events[n].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take_bytes(at);
        flush(at);
        if (at->sends) {
            uint64_t before;
            do { /* until the window, the credit or the socket is full */
                before = at->sent;
                send_what_may_be(at);
                flush(at);
            } while (at->sent > before);
        }
        waits = at->out.begin < at->out.end;
        if (waits != at->wants_write) {
            struct epoll_event wish = {EPOLLIN | (waits ? EPOLLOUT : 0u), {.ptr = at}};
            at->wants_write = waits;
            epoll_ctl(poller, EPOLL_CTL_MOD, at->socket, &wish);
        }
    }
}

static void read_option(char *argument) {
    char *value = strchr(argument, '=');
    if (value == NULL) fail("not name=value: %s", argument);
    *value++ = 0;
    if (!strcmp(argument, "user")) options.user = value;
    else if (!strcmp(argument, "password")) options.password = value;
    else if (!strcmp(argument, "body")) options.body_bytes = (uint32_t)atol(value);
    else if (!strcmp(argument, "window")) options.window = (uint32_t)atol(value);
    else if (!strcmp(argument, "credit")) options.credit = (uint32_t)atol(value);
    else if (!strcmp(argument, "seconds")) options.seconds = atof(value);
    else fail("no option: %s", argument);
}

static void report(double began, double now) {
    struct rusage used;
    double cpu;
    getrusage(RUSAGE_SELF, &used);
    cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"sent\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"received\": %" PRIu64
           ", \"redelivered\": %" PRIu64 ", \"seconds\": %.6f, \"send_seconds\": %.6f"
           ", \"first_seconds\": %.6f, \"client_cpu_seconds\": %.3f}\n",
           accepted, refused, received, redelivered, now - (first_sent > 0 ? first_sent : began),
           first_sent > 0 ? last_accepted - first_sent : 0,
           received ? first_received - began : 0, cpu);
}

int main(int argc, char **argv) {
    struct sockaddr_in server = {.sin_family = AF_INET};
    int poller = epoll_create1(0), senders, receivers;
    bool idle;
    double began, now;
    struct connection *all;
    if (argc < 9) fail("usage: blast HOST PORT pass|idle SEND_TO RECEIVE_FROM COUNT SENDERS RECEIVERS");
    for (int n = 9; n < argc; n++) read_option(argv[n]);
    inet_pton(AF_INET, argv[1], &server.sin_addr);
    server.sin_port = htons((uint16_t)atoi(argv[2]));
    idle = !strcmp(argv[3], "idle");
    count = strtoull(argv[6], NULL, 10);
    senders = atoi(argv[7]);
    receivers = atoi(argv[8]);
    make_transfer();
    all = calloc((size_t)(senders + receivers), sizeof *all);
    began = seconds_now();
    for (int n = 0; n < senders + receivers; n++) {
        bool sends = n >= receivers;
        struct epoll_event wish = {EPOLLIN, {.ptr = all + n}};
        connect_link(all + n, &server, sends, argv[sends ? 4 : 5], n);
        epoll_ctl(poller, EPOLL_CTL_ADD, all[n].socket, &wish);
    }
    if (idle) {
        struct epoll_event wish = {EPOLLIN, {.ptr = NULL}};
        epoll_ctl(poller, EPOLL_CTL_ADD, 0, &wish);
        double settled = seconds_now() + 1;
        while (seconds_now() < settled) turn(poller, 100);
        puts("{\"ready\": true}");
        fflush(stdout);
        for (;;) turn(poller, -1);
    }
    do {
        turn(poller, 1000);
        now = seconds_now();
        if (now - began > options.seconds)
            fail("after %.0f seconds: %" PRIu64 " accepted, %" PRIu64 " refused, %" PRIu64
                 " received of %" PRIu64, now - began, accepted, refused, received, count);
    } while ((senders > 0 && accepted + refused < count) || (receivers > 0 && received < count));
    for (int n = 0; n < senders + receivers; n++) {
        fcntl(all[n].socket, F_SETFL, 0); /* the last acceptances go out before the close */
        flush(all + n);
    }
    report(began, now);
    for (int n = 0; n < senders + receivers; n++) {
        struct list close_list = begin_list(op_close);
        uint8_t ignored[read_bytes / 64];
        send_list(all + n, 0, &close_list);
        flush(all + n);
        shutdown(all[n].socket, SHUT_WR);
        while (read(all[n].socket, ignored, sizeof ignored) > 0) {}
        close(all[n].socket);
    }
    return 0;
}
