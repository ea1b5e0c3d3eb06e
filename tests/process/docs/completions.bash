# Completes each line of standard input as bash does, and prints what is offered.
. packaging/completions/adapter-gateway.bash
complete -p adapter-gateway >/dev/null
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1}
    read -ra COMP_WORDS <<<"${1//=/ = }"
    [[ $1 == *[\ =] && $1 != *= ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    compopt() { :; }
    _adapter_gateway adapter-gateway "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
    echo
}
while IFS= read -r line; do complete_line "$line"; done
