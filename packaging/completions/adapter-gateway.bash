# The completion of adapter-gateway for bash.

# Offers files (-f) or directories (-d).
_adapter_gateway_paths() {
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}

_adapter_gateway() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command="" words=""
    # bash takes `=` for a word of its own.
    if [[ $current == = ]]; then
        current=""
    elif [[ $previous == = && $COMP_CWORD -ge 2 ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $COMP_CWORD -ge 2 ]]; then
        command=${COMP_WORDS[1]}
    fi
    COMPREPLY=()
    [[ -n $command || $current != -* ]] || previous=-
    case "$command $previous" in
        # generated: cases
        "serve --settings") _adapter_gateway_paths -f && return ;;
        "serve --listen") return ;;
        "serve --check") words="known strict envelope" ;;
        "serve --allow-origin") return ;;
        "serve --stats") return ;;
        "serve --connect") return ;;
        "serve --bind") return ;;
        "serve --hub-publishers") return ;;
        "serve --hub-subscribers") return ;;
        "serve --encoding") words="json msgpack" ;;
        "serve --vocabulary") words="as-sent older newer" ;;
        "serve --tls-cert") _adapter_gateway_paths -f && return ;;
        "serve --tls-key") _adapter_gateway_paths -f && return ;;
        "serve --cert-dir") _adapter_gateway_paths -d && return ;;
        "serve --cert-name") return ;;
        "serve --io") words="auto uring epoll" ;;
        "serve --workers") return ;;
        "serve --max-body") return ;;
        "serve --max-head") return ;;
        "serve --max-connections") return ;;
        "serve --max-buffered") return ;;
        "serve --head-timeout") return ;;
        "serve --body-timeout") return ;;
        "serve --idle-timeout") return ;;
        "serve --drain-timeout") return ;;
        "serve --queue") return ;;
        "serve --stall-timeout") return ;;
        "serve "*) words="--settings --listen --plain --check --allow-origin --watch-stdin --watch-parent --log-time --events --stats --connect --bind --hub --hub-publishers --hub-subscribers --encoding --vocabulary --tls-cert --tls-key --cert-dir --cert-name --io --workers --max-body --max-head --max-connections --max-buffered --head-timeout --body-timeout --idle-timeout --drain-timeout --queue --stall-timeout --help" ;;
        "demo --listen") return ;;
        "demo --check") words="known strict envelope" ;;
        "demo --vocabulary") words="as-sent older newer" ;;
        "demo --io") words="auto uring epoll" ;;
        "demo "*) words="--listen --plain --check --vocabulary --io --help" ;;
        "listen --connect") return ;;
        "listen --topic") return ;;
        "listen --encoding") words="json msgpack" ;;
        "listen --color") words="auto always never" ;;
        "listen --count") return ;;
        "listen --timeout") return ;;
        "listen "*) words="--connect --topic --encoding --pretty --color --count --timeout --help" ;;
        "send --settings") _adapter_gateway_paths -f && return ;;
        "send --url") return ;;
        "send --unix") _adapter_gateway_paths -f && return ;;
        "send "*) words="--settings --url --unix --keep-going --help"
            [[ $current == -* ]] || ((COMP_CWORD != 2)) || words="adapter/nodes/data adapter/extensions/data visual/extensions/command core/exts/operate core/extensions/operate core/nodes/operate core/node/statu/change core/extension/statu/change to_homeauto"
             ;;
        "enable --settings") _adapter_gateway_paths -f && return ;;
        "enable "*) words="--settings --help" ;;
        "disable --settings") _adapter_gateway_paths -f && return ;;
        "disable "*) words="--settings --help" ;;
        " -") words="--version --help" ;;
        *) words="serve demo listen send enable disable" ;;
        # end of generated: cases
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _adapter_gateway adapter-gateway
