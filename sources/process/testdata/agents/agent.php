<?php
function wait_reply() { while (true) { usleep(3600000000); } }
echo "ready ", getmypid(), "\n";
wait_reply();
