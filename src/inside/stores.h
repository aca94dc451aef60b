/* SPDX-License-Identifier: MIT */
/*
 * Routines by which the process itself writes to many of its sites: the byte stores of patch.h at the
 * speed of memory. They are in the block's code, and the text must be writable meanwhile.
 */
#ifndef INSIDE_STORES_H
#define INSIDE_STORES_H

#include <stddef.h>
#include <stdint.h>

/* Sites from which on the process stores itself: its calls cost as much as so many single writes of ours. */
enum { STORES_MIN = 64 };

size_t stores_bytes(void);

/* Both routines take the address of the block's header. Offsets from the first byte of them. */
size_t stores_attach_off(void);
size_t stores_detach_off(void);

/* CODE has room for stores_bytes(). */
void stores_write(uint8_t *code);

#endif
