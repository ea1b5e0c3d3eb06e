# Completes each line of standard input, and prints what is offered: a shell in a terminal of its own completes it, and a
# function in it writes down what is offered.
zmodload zsh/zpty
OUT=$(mktemp -d)
mkfifo $OUT/done
exec 3<>$OUT/done
cat >$OUT/setup <<'SETUP'
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits
    builtin compadd -A hits "$@"
    print -rl -- $hits >>$OUT/hits
    builtin compadd "$@"
}
offer() { zle complete-word; print >$OUT/done; zle kill-buffer }
zle -C complete-word complete-word _main_complete
zle -N offer
bindkey '^I' offer
print >$OUT/done
SETUP
zpty inner zsh -f -i
zpty -w inner "fpath=($PWD/packaging/completions \$fpath); autoload -Uz compinit; compinit -u -D; OUT=$OUT; . $OUT/setup"
read -u 3
while IFS= read -r line; do
    : >$OUT/hits
    zpty -w -n inner "$line"$'\t'
    read -u 3
    print -r -- $(sort -u $OUT/hits)
done
zpty -d inner
rm -r $OUT
