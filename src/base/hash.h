/* SPDX-License-Identifier: MIT */
/* Hashes of 64 bits. An attacker who chooses the bytes can make hashes equal. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The start value and the factor of the hash function FNV-1a (Fowler, Noll, Vo). */
#define HASH_START UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

/*
 * Return HASH extended by the N bytes at DATA, by FNV-1a. HASH is HASH_START or the hash of the
 * earlier bytes.
 */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * HASH_PRIME;
	return hash;
}

/*
 * Return HASH extended by WORD with one multiplication: faster than hash_bytes() for 8 bytes. The
 * factor is 2^64 divided by the golden ratio, as in Knuth's multiplicative hashing.
 */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

#endif
