# A job that does nothing but wait for another program.
echo "ready $$"
while :; do
	sleep 3600
done
