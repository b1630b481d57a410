# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# tree.sh - source it, at the top of the tree: git then works here, be it root's or another user's; and
#
#   files [PATTERN...]   all files that the tree has, new ones too, and nothing that was built; each ends with a NUL

export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory
GIT_CONFIG_VALUE_0=$(pwd -P)
export GIT_CONFIG_VALUE_0

files() {
	local empty where=()
	# An archive has no .git, or somebody else's around it: an empty one knows as well what .gitignore leaves out.
	if [[ ! -e .git ]]; then
		empty=$(mktemp -d)
		git init -q --bare "$empty"
		where=(--git-dir="$empty" --work-tree=.)
	fi
	git "${where[@]}" ls-files -z --cached --others --exclude-standard -- "$@"
	[[ -z ${empty-} ]] || rm -rf "$empty"
}
