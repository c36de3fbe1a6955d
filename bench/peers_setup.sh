#!/bin/sh
# One environment for each peer that bench/synth.py and bench/sgd.py run beside gapless, under bench/envs/ (git-ignored).
#
#     sh bench/peers_setup.sh [dpmm] [opendp] [smartnoise] [datasynthesizer] [opacus] [jax_privacy]    all when none is named
#
# They contradict each other and gapless (polars, mbi and numpy are pinned apart), hence a folder each. An environment
# that is complete is left alone; one that cannot be made is named at the end and its peers are skipped later.
# Plain pip from the configured package index; some 6 GB and fifteen minutes for all.
set -u
python=${PYTHON:-python3}
envs=$(cd "$(dirname "$0")" && pwd)/envs
mkdir -p "$envs"
failed=""

make_env() { # name, then one line of pip arguments per step
    name=$1
    shift
    home=$envs/$name
    if [ -f "$home/ready" ]; then
        echo "$name: ready"
        return
    fi
    rm -rf "$home"
    "$python" -m venv "$home" || { failed="$failed $name"; return; }
    for step in "$@"; do
        echo "$name: pip install $step"
        # shellcheck disable=SC2086  # a step is a list of words
        if ! "$home/bin/pip" install -q --disable-pip-version-check $step >"$home/log" 2>&1; then
            tail -n 3 "$home/log"
            failed="$failed $name"
            return
        fi
    done
    "$home/bin/pip" freeze >"$home/ready"
}

[ $# -gt 0 ] || set -- dpmm opendp smartnoise datasynthesizer opacus jax_privacy
for peer in "$@"; do
    case $peer in
    dpmm) make_env dpmm "dpmm==0.1.9 pandas" ;;
    opendp) make_env opendp "opendp[mbi]==0.16.0 pandas pyarrow" ;;
    smartnoise) make_env smartnoise "torch==2.13.0" "smartnoise-synth==1.0.8 packaging" ;;
    datasynthesizer) make_env datasynthesizer "DataSynthesizer" ;;
    opacus) make_env opacus "torch==2.13.0" "opacus==1.6.0" ;;
    jax_privacy) make_env jax_privacy "jax==0.10.2 jax-privacy==2.0.0 optax" ;;
    *) echo "$peer: not one of dpmm, opendp, smartnoise, datasynthesizer, opacus, jax_privacy" >&2; exit 2 ;;
    esac
done
[ -z "$failed" ] || { echo "could not be installed:$failed (the log is in bench/envs/<name>/log)" >&2; exit 1; }
