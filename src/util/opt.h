/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opt.h - options by a table: what there is, what each takes, and where that goes. Command lines are read by it, and
 * files of NAME=VALUE (tools/daemon.h). Whoever says something twice means one of the two, and nobody knows which: it
 * is refused. Errors go to stderr, as "tally bench: --iters 0: a number from 1 to 9 (tally bench --help)".
 */
#ifndef UTIL_OPT_H
#define UTIL_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,    /* a bool becomes true; in a file 1, 0 or nothing says which */
	OPT_UNSET,   /* a bool becomes false */
	OPT_NUMBER,  /* digits, min to max; kept times `unit`, if that is not 0 */
	OPT_SIZE,    /* the same, but K, M or G may follow: times 1024, 1024^2, 1024^3 */
	OPT_SECONDS, /* as 2 or 0.25, kept in milliseconds, of which there are min to max */
	OPT_REAL,    /* decimal, low to high: a double or a float */
	OPT_PART,    /* of a whole, as 8% or 0.08: a double, above 0, at most 1 */
	OPT_CHOICE,  /* one of `names`, kept as its index */
	OPT_TEXT,    /* a const char *, which stays the caller's; not empty */
	OPT_COPY,    /* a char[bytes]; not empty, unless may_be_empty */
	OPT_CALL,    /* whatever `call` makes of it */
	OPT_DO       /* the same, but there is no value: NULL */
};

struct opt;

/* A value on its way. */
struct opt_value {
	const struct opt *opt;
	void *request;    /* what the caller fills in */
	const char *text; /* NULL: the option has none */
	char why[768];    /* what is wrong, if that has to be put together */
};

struct opt {
	const char *name; /* without dashes */
	enum opt_kind kind;
	char letter;              /* of -n; 0: none */
	size_t at, bytes;         /* of the field in the caller's struct: OPT_FIELD */
	uint64_t min, max, unit;  /* max 0: no limit */
	uint64_t step;            /* a number is a multiple of it; 0: any is good */
	double low, high;         /* of OPT_REAL */
	const char *const *names; /* of OPT_CHOICE; ends with NULL */
	const char *takes; /* what a value is, for whoever gives another; of numbers NULL will do */
	const char *(*call)(struct opt_value *value); /* NULL, or what is wrong */
	const char *instead;     /* a word that leaves a number as it is; NULL: none */
	const char *same;        /* the option that says the same thing; NULL: none */
	const char *not_in_file; /* why not; NULL: it may stand there */
	bool is_many;            /* may be said again and again */
	bool may_be_empty;
	bool is_live; /* may change while a daemon runs */
};
#define OPT_FIELD(type, field) .at = offsetof(type, field), .bytes = sizeof(((type *)NULL)->field)
#define OPT_COUNT(table) (sizeof(table) / sizeof((table)[0]))
enum { OPT_MAX = 64, OPT_GO_ON = -1 };

struct opt_command {
	const char *name;    /* "tally bench" */
	const char *help;    /* --help and -h print it; NULL: there is no such option */
	const char *version; /* so does --version */
	const struct opt *table;
	size_t count;      /* OPT_MAX at most */
	bool ends_at_word; /* the first word that is no option, and all after it, are not ours */
};

/* What was on the command line. */
struct opt_line {
	uint64_t seen; /* a bit for each of the table */
	char **word;   /* what is no option: in argv, behind the options */
	int words;
};

/* OPT_GO_ON, or the exit status: 0 after --help, 1 if stdout failed, 2 if something is wrong, which has been said. */
int opt_read(const struct opt_command *command, void *request, int argc, char **argv,
	     struct opt_line *line);
bool opt_has(const struct opt_command *command, const struct opt_line *line, const char *name);

/* Takes a value. NULL, or what is wrong. */
const char *opt_take(struct opt_value *value);
const struct opt *opt_find(const struct opt *table, size_t count, const char *name);
/* Whether a value follows its name. */
bool opt_has_value(const struct opt *opt);

/* The value that its field has, as it would be said; "" of what a call has made of it. */
enum { OPT_TEXT_BYTES = 32 };
const char *opt_text(const struct opt *opt, const void *request, char text[OPT_TEXT_BYTES]);

/* Says what is wrong with `what`, which has no value if that is NULL; 2. */
int opt_refuse(const char *command, const char *what, const char *value, const char *why);
/* Prints, to the end; the exit status: a full disk is not success. */
int opt_print(const char *command, const char *text);
/* At the end of a program that prints numbers: those that a full disk has eaten are no success, whenever it was. The exit
 * status. */
int opt_end(const char *command, int status);

/* Values, for those who read them elsewhere. false: *to is untouched. */
bool opt_number(const char *text, uint64_t min, uint64_t max, uint64_t *to);
bool opt_size(const char *text, uint64_t min, uint64_t max, uint64_t *to);
bool opt_seconds(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *to_ms);
/* strtod takes more than decimal numbers. */
bool opt_real(const char *text, double low, double high, double *to);

#endif
