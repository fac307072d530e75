#!/bin/sh
# Takes permits of a limit of coord serve, and waits for them, by curl and a POSIX shell:
#
#   coord-take.sh [-n N] [-w WAIT] KEY && COMMAND
#
#   COORD_SERVE        where coord serve listens: http://127.0.0.1:8470 by default
#   COORD_SERVE_TOKEN  the token of this caller
#
# KEY is the name of a limit of the configuration. WAIT is in whole seconds, 0 by default. The exit status is 0 if the N
# permits were taken, 75 if they did not come in time, 69 without an answer, and 64 for a mistake. A request whose answer
# was lost may have taken its permits, and is not sent again.
set -u

n=1 wait=0
while getopts n:w: option; do
	case $option in
	n) n=$OPTARG ;;
	w) wait=$OPTARG ;;
	*) exit 64 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { echo 'usage: coord-take.sh [-n N] [-w WAIT] KEY' >&2 && exit 64; }
case $n$wait in *[!0-9]*) echo 'coord-take: N and WAIT: want whole numbers' >&2 && exit 64 ;; esac
case $1${COORD_SERVE_TOKEN:-} in *[\"\\]* | *[[:cntrl:]]*)
	echo 'coord-take: KEY and token: want no quotes, backslashes and control characters' >&2
	exit 64
	;;
esac

# config is what everybody would see as an argument of a process.
config() { [ -z "${COORD_SERVE_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$COORD_SERVE_TOKEN"; }

while :; do
	turn=$wait
	[ "$turn" -le 60 ] || turn=60
	answer=$(config | curl --config - -sS --max-time $((turn + 10)) --json '{"key":"'"$1"'","n":'"$n"',"wait_ms":'$((turn * 1000))'}' \
		"${COORD_SERVE:-http://127.0.0.1:8470}/v1/limits/take") || exit 69
	case $answer in
	'{"allowed":true,'*) exit 0 ;;
	'{"allowed":false,'*) ;;
	*) printf 'coord-take: %s\n' "$answer" >&2 && exit 69 ;;
	esac
	wait=$((wait - turn))
	[ $wait -gt 0 ] || { printf 'coord-take: %s\n' "$answer" >&2 && exit 75; }
done
