/* SPDX-License-Identifier: MIT */
/* The 64-bit hash FNV-1a (Fowler, Noll, Vo). It does not resist attackers who choose the bytes. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

/* Add the N bytes at DATA to HASH, which is HASH_START or the hash of earlier bytes. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * HASH_PRIME;
	return hash;
}

#endif
