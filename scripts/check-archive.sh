#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-archive.sh - programs that are built from an archive of git's say its commit, those from another copy none.
# And scripts/tree.sh knows the files of an archive, and those of a checkout that is another user's.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# says WORDS FOLDER: what commit.sh says there.
says() {
	local said
	said=$("$2/scripts/commit.sh") || { echo "$2/scripts/commit.sh fails" && exit 1; }
	[[ $said == "$1" ]] || { echo "$2/scripts/commit.sh says \"$said\", not \"$1\"" && exit 1; }
}

# knows FOLDER: its files as scripts/tree.sh lists them, sorted.
knows() {
	local here=$PWD
	# shellcheck source=scripts/tree.sh
	(cd "$1" && . "$here/scripts/tree.sh" && files . | tr '\0' '\n' | sort)
}

mkdir "$tmp/theirs"
git -C "$tmp/theirs" init -q
touch "$tmp/theirs/one file" "$tmp/theirs/crash-1"
cp .gitignore "$tmp/theirs"
if ((EUID == 0)); then
	chown -R 65534:65534 "$tmp/theirs"
else
	echo "SKIP: a checkout that is another user's (not root)"
fi
[[ $(knows "$tmp/theirs") == $'.gitignore\none file' ]] || { echo "another user's checkout has these files: $(knows "$tmp/theirs")" && exit 1; }

mkdir -p "$tmp/copy/scripts"
sed "s/^archived=.*/archived='\$Format:%H\$'/" scripts/commit.sh >"$tmp/copy/scripts/commit.sh"
chmod +x "$tmp/copy/scripts/commit.sh"
says "" "$tmp/copy"
if [[ ! -e .git ]]; then
	echo "NOT HERE: git's history, to make an archive of: this is one already, of commit $(scripts/commit.sh)"
	exit 0
fi
commit=$(git rev-parse --short=12 HEAD)
says "$commit" .
mkdir "$tmp/archive"
git archive HEAD | tar -x -C "$tmp/archive"
says "$commit" "$tmp/archive"
touch "$tmp/archive/crash-1"
git ls-tree -r --name-only -z HEAD | tr '\0' '\n' | sort >"$tmp/committed"
knows "$tmp/archive" | diff "$tmp/committed" - || { echo "an archive has other files" && exit 1; }
# Somebody else's repository around it, as a package's is.
git -C "$tmp" init -q
git -C "$tmp" -c user.name=x -c user.email=x commit -q --allow-empty -m x
says "$commit" "$tmp/archive"
says "" "$tmp/copy"
knows "$tmp/archive" | diff "$tmp/committed" - || { echo "an archive in a repository has other files" && exit 1; }
echo "archives say their commit: $commit"
