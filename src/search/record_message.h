/* SPDX-License-Identifier: Apache-2.0 */
/* record_message.h - what a message of control says, for a line of record.h. */
#ifndef SEARCH_RECORD_MESSAGE_H
#define SEARCH_RECORD_MESSAGE_H

#include "core/job/control.h"

/* More of the line: a list of the type and all numbers, its texts, and then further lists and texts: of each shard its
 * port and lanes, of each member its rank and process, and its host, of each operation what it is, and its name. */
void record_message(const struct control_message *message);

#endif
