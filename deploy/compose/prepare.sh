#!/bin/sh
# prepare.sh DIR: creates the files that the edges of compose.yaml share, unless they are there already.
set -eu
umask 077
cd "$1"
if [ -e ready ]; then
  exit 0
fi
rm -rf certs # of an interrupted run: they are not used before everything is ready
random() { python -c 'import secrets; print(secrets.token_hex(32))'; }

alphaedge certs init certs --fleet example
alphaedge certs issue certs --edge berlin --region DE --host berlin
alphaedge certs issue certs --edge boston --region US --host boston
alphaedge certs issue certs --edge tokyo --region JP --host tokyo
random > fleet.secret
random > token.txt
echo "# Rules for links between edges; none is denied. Example: deny from=US to=JP" > policy.txt
touch ready
