# The completion of adapter-gateway for bash.

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
    case "$command $previous" in
        "serve --check") words="known strict envelope" ;;
        "serve --encoding") words="json msgpack" ;;
        "serve --vocabulary") words="as-sent older newer" ;;
        "serve --io") words="auto uring epoll" ;;
        "serve --settings" | "serve --tls-cert" | "serve --tls-key")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "serve --cert-dir")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return
            ;;
        "serve --listen" | "serve --allow-origin" | "serve --stats" | "serve --connect" | "serve --bind" | "serve --hub-publishers" | "serve --hub-subscribers" | "serve --cert-name" | "serve --workers" | "serve --max-body" | "serve --max-head" | "serve --max-connections" | "serve --max-buffered" | "serve --head-timeout" | "serve --body-timeout" | "serve --idle-timeout" | "serve --drain-timeout" | "serve --queue" | "serve --stall-timeout") return ;;
        "demo --check") words="known strict envelope" ;;
        "demo --vocabulary") words="as-sent older newer" ;;
        "demo --io") words="auto uring epoll" ;;
        "demo --listen") return ;;
        "listen --encoding") words="json msgpack" ;;
        "listen --color") words="auto always never" ;;
        "listen --connect" | "listen --topic" | "listen --count" | "listen --timeout") return ;;
        "send --settings" | "send --unix")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "send --url") return ;;
        "enable --settings")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "disable --settings")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "serve "*) words="--settings --listen --plain --check --allow-origin --watch-stdin --watch-parent --log-time --events --stats --connect --bind --hub --hub-publishers --hub-subscribers --encoding --vocabulary --tls-cert --tls-key --cert-dir --cert-name --io --workers --max-body --max-head --max-connections --max-buffered --head-timeout --body-timeout --idle-timeout --drain-timeout --queue --stall-timeout --help" ;;
        "demo "*) words="--listen --plain --check --vocabulary --io --help" ;;
        "listen "*) words="--connect --topic --encoding --pretty --color --count --timeout --help" ;;
        "send "*) words="--settings --url --unix --keep-going --help" ;;
        "enable "*) words="--settings --help" ;;
        "disable "*) words="--settings --help" ;;
        *)
            words="serve demo listen send enable disable"
            [[ $current != -* ]] || words="--version --help"
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _adapter_gateway adapter-gateway
