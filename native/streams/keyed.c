/* A table of values, which are chained by their hash, and linked in the order in which they were last updated. It grows
 * with what is in it: how large it may become is a peer's to say. */
#include "streams/keyed.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 8
#define NONE UINT32_MAX

/* One value of the key. */
struct value {
    uint64_t hash;
    uint32_t chained;       /* the next one with a hash in this bucket, or free one; NONE: there is none */
    uint32_t before, after; /* those updated before and after it; NONE likewise */
    uint32_t head, count;   /* of the ring */
    struct kept *ring;      /* owned; has room for max_events, of which the newest has the key */
};

struct keyed {
    struct key_place place;
    size_t max_events, max_keys, max_bytes;
    struct value *values; /* owned; NULL: there never was one */
    uint32_t *buckets;    /* owned; as many as there is room for values, a power of two */
    uint32_t capacity;    /* of both */
    uint32_t used;        /* of the values: those from there on never had a key */
    uint32_t free;        /* the first of the others that have none; NONE: all have */
    uint32_t count;       /* that have one */
    uint32_t oldest, newest;
    size_t bytes; /* of all records */
    uint64_t forgotten;
};

/* --- keys --- */

struct key {
    const uint8_t *bytes;
    size_t size;
};

static uint64_t load_slot(const uint8_t *bytes, const struct key_place *place)
{
    uint64_t word = 0;

    for (Py_ssize_t i = 0; i < place->size; i++)
        word = word << 8 | bytes[place->is_big ? i : place->size - 1 - i];
    return word;
}

/* 0; -1: there is none. */
static int find_key(const struct key_place *place, PyObject *record, struct key *key)
{
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(record), *end;
    size_t size = (size_t)PyBytes_Size(record);
    uint64_t begin;

    if ((size_t)(place->offset + place->size) > size)
        return -1;
    *key = (struct key){bytes + place->offset, (size_t)place->size};
    if (!place->is_text)
        return 0;
    begin = load_slot(key->bytes, place);
    end = begin < size ? memchr(bytes + begin, 0, size - begin) : NULL;
    if (end == NULL)
        return -1;
    *key = (struct key){bytes + begin, (size_t)(end - bytes) - begin};
    return 0;
}

/* FNV-1a, finished so that all bits count in the lowest. Who chooses keys that meet costs its own stream time only: there
 * are few. */
static uint64_t hash_of(const struct key *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < key->size; i++)
        hash = (hash ^ key->bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

static struct kept *kept_at(const struct keyed *keyed, const struct value *value, uint32_t i)
{
    return &value->ring[(value->head + i) % keyed->max_events];
}

static int has_key(const struct keyed *keyed, const struct value *value, const struct key *key)
{
    struct key own;

    return find_key(&keyed->place, kept_at(keyed, value, value->count - 1)->record, &own) == 0 &&
           own.size == key->size && memcmp(own.bytes, key->bytes, key->size) == 0;
}

/* --- the table --- */

static uint32_t *bucket_of(const struct keyed *keyed, uint64_t hash)
{
    return &keyed->buckets[hash & (keyed->capacity - 1)];
}

static uint32_t find(const struct keyed *keyed, const struct key *key, uint64_t hash)
{
    uint32_t i = keyed->capacity != 0 ? *bucket_of(keyed, hash) : NONE;

    while (i != NONE && (keyed->values[i].hash != hash || !has_key(keyed, &keyed->values[i], key)))
        i = keyed->values[i].chained;
    return i;
}

static void chain(struct keyed *keyed, uint32_t i)
{
    uint32_t *bucket = bucket_of(keyed, keyed->values[i].hash);

    keyed->values[i].chained = *bucket;
    *bucket = i;
}

static void unchain(struct keyed *keyed, uint32_t i)
{
    uint32_t *place = bucket_of(keyed, keyed->values[i].hash);

    while (*place != i)
        place = &keyed->values[*place].chained;
    *place = keyed->values[i].chained;
}

static void link_newest(struct keyed *keyed, uint32_t i)
{
    keyed->values[i].before = keyed->newest;
    keyed->values[i].after = NONE;
    *(keyed->newest != NONE ? &keyed->values[keyed->newest].after : &keyed->oldest) = i;
    keyed->newest = i;
}

static void unlink_value(struct keyed *keyed, uint32_t i)
{
    const struct value *value = &keyed->values[i];

    *(value->before != NONE ? &keyed->values[value->before].after : &keyed->oldest) = value->after;
    *(value->after != NONE ? &keyed->values[value->after].before : &keyed->newest) = value->before;
}

static void drop_first(struct keyed *keyed, struct value *value)
{
    struct kept *first = kept_at(keyed, value, 0);

    keyed->bytes -= (size_t)PyBytes_Size(first->record);
    Py_DECREF(first->record);
    value->head = (uint32_t)((value->head + 1) % keyed->max_events);
    value->count--;
}

/* The value has a ring, and is in the table. */
static void remove_value(struct keyed *keyed, uint32_t i)
{
    struct value *value = &keyed->values[i];

    unlink_value(keyed, i);
    unchain(keyed, i);
    while (value->count > 0)
        drop_first(keyed, value);
    free(value->ring);
    value->chained = keyed->free;
    keyed->free = i;
    keyed->count--;
}

/* 0, or -1: no memory, and all is as it was. */
static int grow(struct keyed *keyed)
{
    uint32_t i, capacity = keyed->capacity != 0 ? 2 * keyed->capacity : FIRST_CAPACITY;
    uint32_t *buckets = malloc(capacity * sizeof *buckets);
    struct value *values = buckets != NULL ? realloc(keyed->values, capacity * sizeof *values) : NULL;

    if (values == NULL) {
        free(buckets);
        return -1;
    }
    free(keyed->buckets);
    keyed->values = values;
    keyed->buckets = buckets;
    keyed->capacity = capacity;
    memset(buckets, 0xff, capacity * sizeof *buckets);
    for (i = keyed->oldest; i != NONE; i = keyed->values[i].after)
        chain(keyed, i);
    return 0;
}

/* A new value, without a record: NONE: no memory. */
static uint32_t add_value(struct keyed *keyed, uint64_t hash)
{
    struct kept *ring = malloc(keyed->max_events * sizeof *ring);
    uint32_t i = keyed->free;

    if (ring == NULL || (i == NONE && keyed->used == keyed->capacity && grow(keyed) != 0)) {
        free(ring);
        return NONE;
    }
    if (i == NONE)
        i = keyed->used++;
    else
        keyed->free = keyed->values[i].chained;
    keyed->values[i] = (struct value){.hash = hash, .ring = ring};
    chain(keyed, i);
    link_newest(keyed, i);
    keyed->count++;
    return i;
}

static void forget_oldest(struct keyed *keyed)
{
    remove_value(keyed, keyed->oldest);
    keyed->forgotten++;
}

/* --- for others --- */

size_t echo_keyed_bytes(const struct keyed *keyed)
{
    return keyed->bytes;
}

struct keyed *echo_keyed_new(struct key_place place, size_t max_events, size_t max_keys, size_t max_bytes)
{
    struct keyed *keyed = calloc(1, sizeof *keyed);

    if (keyed != NULL)
        *keyed = (struct keyed){.place = place,
                                .max_events = max_events,
                                .max_keys = max_keys,
                                .max_bytes = max_bytes,
                                .free = NONE,
                                .oldest = NONE,
                                .newest = NONE};
    return keyed;
}

void echo_keyed_forget(struct keyed *keyed)
{
    while (keyed->oldest != NONE)
        remove_value(keyed, keyed->oldest);
}

void echo_keyed_free(struct keyed *keyed)
{
    if (keyed == NULL)
        return;
    echo_keyed_forget(keyed);
    free(keyed->values);
    free(keyed->buckets);
    free(keyed);
}

/* Of a key that is there: as the newest. Or a new value, for which there is room. */
static uint32_t renew(struct keyed *keyed, const struct key *key)
{
    uint64_t hash = hash_of(key);
    uint32_t i = find(keyed, key, hash);

    if (i != NONE) {
        unlink_value(keyed, i);
        link_newest(keyed, i);
        return i;
    }
    if (keyed->count == keyed->max_keys)
        forget_oldest(keyed);
    return add_value(keyed, hash);
}

int echo_keyed_add(struct keyed *keyed, struct kept kept)
{
    size_t size = (size_t)PyBytes_Size(kept.record);
    struct value *value;
    struct key key;
    uint32_t i;

    if (find_key(&keyed->place, kept.record, &key) != 0) {
        Py_DECREF(kept.record);
        return 0;
    }
    i = renew(keyed, &key);
    if (i == NONE) {
        PyErr_NoMemory();
        return -1;
    }
    if (size > keyed->max_bytes) { /* else a sink would take an older one for the newest */
        remove_value(keyed, i);
        keyed->forgotten++;
        Py_DECREF(kept.record);
        return 0;
    }
    if (keyed->values[i].count == keyed->max_events)
        drop_first(keyed, &keyed->values[i]);
    while (size > keyed->max_bytes - keyed->bytes && keyed->oldest != i)
        forget_oldest(keyed);
    value = &keyed->values[i];
    while (size > keyed->max_bytes - keyed->bytes)
        drop_first(keyed, value);
    *kept_at(keyed, value, value->count++) = kept;
    keyed->bytes += size;
    return 0;
}

uint64_t echo_keyed_forgotten(const struct keyed *keyed)
{
    return keyed->forgotten;
}

size_t echo_keyed_all(const struct keyed *keyed, struct kept *room)
{
    size_t count = 0;

    for (uint32_t i = keyed->oldest; i != NONE; i = keyed->values[i].after)
        for (uint32_t j = 0; j < keyed->values[i].count; j++, count++)
            if (room != NULL)
                room[count] = *kept_at(keyed, &keyed->values[i], j);
    return count;
}
