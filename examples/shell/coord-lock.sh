#!/bin/sh
# Runs a command under a lock of coord serve, by curl. It is for Linux, and any POSIX shell such as dash or bash.
#
#   coord-lock.sh [-t TTL] [-w WAIT] [-v] KEY COMMAND [ARGUMENT ...]
#   coord-lock.sh -s [-w WAIT] [-v] KEY COMMAND [ARGUMENT ...]
#
#   COORD_SERVE        where coord serve listens: http://127.0.0.1:8470 by default, or unix:/path
#   COORD_SERVE_TOKEN  the token of this caller
#
# TTL and WAIT are whole seconds: 30 and 0 by default. The command has the fencing token in COORD_TOKEN. The exit status is
# that of the command; 75 if someone else holds the key, 74 if the lock was lost, 69 if the server refused or did not
# answer, 64 for a mistake. -v says on standard error what is believed.
#
# The lock is renewed while the command runs. The command, with all of its process group, gets TERM when a fifth of the TTL
# is left, and KILL when the time is over: what this script may believe is its clock when it sent a request plus
# remaining_ms of the answer, the latest of all. Nobody else is granted the key before. If all is stopped for longer, as on
# a machine that sleeps, the command may go on for a moment when it is continued: let what it writes to refuse a token that
# is smaller than one that it has seen.
#
# With -s the lock is a stream: it is held until the server has seen its connection end, and WAIT is 60 at most. That
# needs no renewals, frees the key at once if this machine is switched off or cut off, and says nothing of a time. The
# command gets KILL when the stream ends, and someone else may have the key before that: where late writes do harm, the
# token has to keep them out.
set -u

say() { [ -z "$verbose" ] || printf 'coord-lock: %s\n' "$*" >&2; }

die() {
	status=$1 && shift
	printf 'coord-lock: %s\n' "$*" >&2
	exit "$status"
}

# now sets $now, in hundredths of a second on the clock of /proc/uptime, which nobody sets and which goes on in sleep.
now() {
	read -r now _ </proc/uptime || die 64 'there is no /proc/uptime'
	now=${now%.*}${now#*.}
}

# seconds writes hundredths of a second as seconds.
seconds() { printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); }

# request is curl with what all requests have. It is in a file, for everybody sees the arguments of a process.
request() { curl --config "$dir/config" -sS "$@" 2>"$dir/error"; }

# ask PATH BODY SECONDS makes a request, and sets $answer. 1 is no answer. $sent is when it began.
ask() {
	now
	sent=$now
	answer=$(request --max-time "$3" --json "$2" "$base$1")
}

# field NAME is a number or a string of $answer.
field() { printf '%s\n' "$answer" | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'; }

# believe notes what $answer allows to believe.
believe() {
	new=$((sent + $(field remaining_ms) / 10))
	[ $new -le "$until" ] || until=$new
	now
	say "$key held $token at $(seconds "$now") until $(seconds "$until")"
}

# acquire takes the key. A request whose answer is lost is sent again, and finds the same hold.
acquire() {
	now
	end=$((now + wait * 100)) request_id='' until=0
	while :; do
		left=$(((end - now) / 100))
		[ $left -le 60 ] || left=60
		[ $left -ge 0 ] || left=0
		[ -n "$request_id" ] || request_id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
		body='{"key":"'"$key"'","ttl_ms":'$((ttl * 1000))',"wait_ms":'$((left * 1000))',"request_id":"'"$request_id"'"}'
		ask /v1/locks/acquire "$body" $((left + 10)) || answer=$(cat "$dir/error")
		now
		case $answer in
		'{"id"'*) # what it has waited is lost to what may be believed: the same request is answered at once now
			lease=$(($(field ttl_ms) / 10))
			[ "$now" -ge $((sent + lease / 3)) ] || break
			[ "$now" -lt $((end + 500)) ] || die 69 'answers take longer than a third of the TTL'
			;;
		*'"locked"'*)
			request_id=''
			[ "$now" -lt $end ] || die 75 "$answer"
			;;
		'{"error"'*'"unavailable"'* | '{"error"'*'"unknown_outcome"'* | '{"error"'*'"closed"'* | curl*)
			[ "$now" -lt $((end + 500)) ] || die 69 "$answer"
			sleep 0.2
			;;
		*) die 69 "$answer" ;;
		esac
	done
	id=$(field id) token=$(field token)
	believe
	[ "$now" -lt "$until" ] || die 74 "the lock $key was lost before the command could begin"
}

# keep renews, and ends the command in time. It is a process beside the script, and goes on if that is killed.
keep() {
	renew_at=$((sent + lease / 3)) warned=''
	while :; do
		now
		left=$((until - now))
		if [ $left -le 20 ]; then
			lost
		elif ! parent_lives; then
			abandoned
		elif [ $left -le $((lease / 5)) ] && [ -z "$warned" ]; then
			warned=yes
			: >"$dir/lost"
			kill -s TERM -- "-$pid" 2>/dev/null
		elif [ "$now" -ge $renew_at ]; then
			renew
		fi
		sleep 0.1
	done
}

renew() {
	renew_at=$((now + lease / 3)) most=$((left - 20))
	[ $most -le $((lease / 3)) ] || most=$((lease / 3))
	if ! ask /v1/locks/renew '{"id":"'"$id"'"}' "$(seconds $most)"; then
		renew_at=$((now + lease / 20)) # it changes nothing: it is sent again
		return
	fi
	case $answer in
	'{"id"'*) believe ;;
	*'"lost"'* | *'"max_hold"'* | *'"not_held"'*) lost ;;
	esac
}

lost() {
	: >"$dir/lost"
	kill -s KILL -- "-$pid" 2>/dev/null
	exit
}

# parent_lives: the parent of this process is the script.
parent_lives() {
	read -r _ _ _ parent _ </proc/self/stat
	[ "$parent" = $$ ]
}

# abandoned does what a script that was killed cannot.
abandoned() {
	kill -s KILL -- "-$pid" 2>/dev/null
	if [ -n "$stream" ]; then kill "$stream"; else release; fi
	rm -rf "$dir"
	exit
}

# release gives the key back. From when it is sent nothing is held.
release() {
	now
	say "$key released $token at $(seconds "$now")"
	for _ in 1 2 3; do
		ask /v1/locks/release '{"id":"'"$id"'"}' 5 && return
		sleep 0.2
	done
}

# hold opens the stream. curl is the connection: when that ends, the key is free.
hold() {
	mkfifo "$dir/events" || exit 64
	[ "$wait" -le 60 ] || wait=60
	curl --config "$dir/config" -sSN --json '{"key":"'"$key"'","wait_ms":'$((wait * 1000))'}' "$base/v1/locks/hold" \
		>"$dir/events" 2>"$dir/error" &
	stream=$! token=''
	exec 4<"$dir/events"
	while [ -z "$token" ]; do
		read -r answer <&4 || die 69 "$(cat "$dir/error")"
		case $answer in
		'data: '*) token=$(field token) ;;
		*'"locked"'*) die 75 "$answer" ;;
		'{"error"'*) die 69 "$answer" ;;
		esac
	done
	say "$key held $token, by a stream"
}

# follow ends the command when the stream ends. Something comes each second.
follow() {
	while read -r answer <&4; do
		case $answer in 'event: error') break ;; esac
		parent_lives || abandoned
	done
	lost
}

# pass passes the last signal on to the command, which may have no session yet.
pass() { [ -z "$pid" ] || kill -s "$signalled" -- "-$pid" 2>/dev/null || kill -s "$signalled" "$pid" 2>/dev/null; }

# clean ends what may be left; it is no error if all has ended.
# shellcheck disable=SC2317,SC2086 # the trap calls it; a list of none, one or two
clean() {
	[ -z "$keeper$stream" ] || kill -s KILL $keeper $stream 2>/dev/null
	rm -rf "$dir"
}

ttl=30 wait=0 streams='' stream='' verbose='' keeper='' signalled='' pid=''
while getopts t:w:sv option; do
	case $option in
	t) ttl=$OPTARG ;;
	w) wait=$OPTARG ;;
	s) streams=yes ;;
	v) verbose=yes ;;
	*) exit 64 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || die 64 'usage: coord-lock.sh [-t TTL] [-w WAIT] [-s] [-v] KEY COMMAND ...'
case $ttl$wait in *[!0-9]*) die 64 'TTL and WAIT: want whole seconds' ;; esac
case $1${COORD_SERVE_TOKEN:-} in *[\"\\]* | *[[:cntrl:]]*) die 64 'KEY and token: want no quotes, backslashes and control characters' ;; esac
key=$1 && shift

dir=$(mktemp -d) || exit 64
trap clean EXIT
base=${COORD_SERVE:-http://127.0.0.1:8470}
{
	[ -z "${COORD_SERVE_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$COORD_SERVE_TOKEN"
	case $base in unix:*) printf 'unix-socket = "%s"\n' "${base#unix:}" && base=http://localhost ;; esac
} >"$dir/config"
if [ -n "$streams" ]; then hold; else acquire; fi

# The command has a session of its own, so that all of its processes can be ended. Signals are passed on to it.
for signal in HUP INT TERM; do
	# shellcheck disable=SC2064 # the signal of now
	trap "signalled=$signal; pass" $signal
done
exec 3<&0
COORD_TOKEN=$token setsid "$@" <&3 3<&- 4<&- &
pid=$!
[ -z "$signalled" ] || pass
if [ -n "$streams" ]; then follow 2>/dev/null & else keep & fi
keeper=$!
status=0
wait $pid || status=$?
while [ -n "$signalled" ]; do # it may have ended the wait, and not the command
	signalled='' again=0
	wait $pid 2>/dev/null || again=$?
	[ $again -eq 127 ] || status=$again # 127: the wait before has told the status already
done
{ kill -s KILL $keeper && wait $keeper; } 2>/dev/null
keeper=''
[ ! -e "$dir/lost" ] || die 74 "the lock $key was lost, and the command was ended"
[ -n "$streams" ] || release
exit "$status"
