# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# daemon.sh - to be sourced: a tallyd or more in the hub's namespace of a lab that is up (lab.sh), until they are stopped.
#
#   daemon_start LOG COMMAND...   returns when tallyd is ready; 1 if it has ended or is not ready after 20 s, its
#                                 stderr, which is LOG, is then shown
#   daemon_ready LOG PID          the same of any program that runs
#   daemon_stop                   waits until all are gone; nothing if there is none

daemons=()

daemon_ready() {
	for _ in $(seq 400); do
		! grep -q ready "$1" || return 0
		kill -0 "$2" 2>/dev/null || break
		sleep 0.05
	done
	cat "$1" >&2
	return 1
}

daemon_start() {
	local log=$1
	shift
	: >"$log"
	"$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lab.sh" exec hub "$@" 2>"$log" &
	daemons+=($!)
	daemon_ready "$log" "${daemons[-1]}"
}

daemon_stop() {
	((${#daemons[@]})) || return 0
	kill "${daemons[@]}" 2>/dev/null || true
	wait "${daemons[@]}" 2>/dev/null || true
	daemons=()
}
