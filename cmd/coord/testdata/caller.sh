# A caller of coord serve by coord-lock.sh, for TestServeAttack: SHELL SCRIPT URLS KEYS.
urls=$(echo "$3" | tr ',' ' ') keys=$(echo "$4" | tr ',' ' ')
while :; do
	for key in $keys; do
		for url in $urls; do
			for time in 0.3 3; do
				COORD_SERVE=$url "$1" "$2" -v -t 2 -w 3 "$key" sleep $time
			done
		done
	done
done
